"""An extra forward of a model, on copies of its weights and buffers, that leaves nothing changed.

Runs in eval mode without gradients. Random numbers are replaced by constants: which of them a sample gets may depend on the
other samples, and then one would seem to reach the other. Generators, modes and attributes are put back; what the model prints is
not shown. A model whose forward might do something that cannot be put back gets no extra forward.
"""

import contextlib
import dis
import io
import random
import sys
from collections import deque
from collections.abc import Iterator
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from instep.doctor.constant_draws import ConstantDraws

LARGEST = 50_000_000  # numbers in weights and buffers: they are copied
# Calls in a forward that reach out of the model.
REACHING = frozenset({
    "open", "write", "writelines", "add_scalar", "add_image", "add_histogram", "save", "dump", "backward", "all_reduce",
    "all_gather",
    "all_gather_into_tensor", "reduce_scatter", "broadcast", "barrier", "send", "recv", "put", "put_nowait", "input", "system",
    "Popen",
    "urlopen", "sleep", "checkpoint_sequential", "log_metrics", "log_dict",
})  # fmt: skip
WRITING = frozenset({"append", "extend", "update", "add", "insert", "push", "pop", "next", "record", "setdefault", "remove"})
OWN = ("_parameters", "_buffers", "_modules")


def is_safe(module: nn.Module, *, copied: bool = False) -> bool:
    """Whether one more forward can be undone. In a copy of the process that holds for hooks and generators of the model's too."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return False
    if type(module).__module__.startswith(("torch._dynamo", "torch.nn.parallel", "torch.jit", "torch.fx")):
        return False
    if any(kind.__module__.startswith("keras.") for kind in type(module).__mro__):
        return False  # an argument says whether it trains, and then it writes to its statistics
    size = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    return size <= LARGEST and all(_is_safe_part(part, copied) for part in module.modules())


def is_torchs(module: nn.Module) -> bool:
    """Whether a module and all its parts are torch's own and nobody listens to them.

    What their forwards write to is known. No copy of the process is needed then: one costs as much as many small forwards.
    """
    if _is_observed() or not all(type(part).__module__.startswith("torch.nn.modules.") for part in module.modules()):
        return False
    return is_safe(module)


def _is_observed() -> bool:
    """Whether somebody else would notice a forward: a profiler, a mode, hooks on all modules that are not the doctor's."""
    module = torch.nn.modules.module
    modes = torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack()
    hooks: list[Any] = [*module._global_forward_hooks.values(), *module._global_forward_pre_hooks.values()]
    others = any(not type(getattr(hook, "__self__", None)).__module__.startswith("instep.doctor.") for hook in hooks)
    return bool(modes or others or torch.is_autocast_enabled("cpu") or torch._C._autograd._profiler_enabled())


def _is_safe_part(part: nn.Module, copied: bool) -> bool:
    hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
    if isinstance(part, torch.jit.ScriptModule) or (hooks and (not copied or any(map(_reaches, hooks)))):
        return False
    if not copied and any(isinstance(value, torch.Generator) for value in vars(part).values()):
        return False
    if type(part).__module__.startswith("torch.nn."):
        return True
    code = getattr(type(part).forward, "__code__", None)
    if code is None or REACHING & set(code.co_names):
        return False
    return copied or not any(step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for step in dis.get_instructions(code))


def _reaches(hook: Any) -> bool:
    """Whether a hook may reach out of the model."""
    code = getattr(hook, "__code__", None) or getattr(type(hook).__call__, "__code__", None)
    return code is None or bool(REACHING & set(code.co_names))


def is_closed(module: nn.Module) -> bool:
    """Whether no part's forward seems to write to anything: asked where the extra forward is in this very process."""
    return all(
        type(part).__module__.startswith("torch.nn.") or not _writes(type(part).forward.__code__) for part in module.modules()
    )


def _writes(code: CodeType) -> bool:
    stores = any(step.opname.startswith(("STORE_ATTR", "STORE_SUBSCR")) for step in dis.get_instructions(code))
    return stores or any(name in WRITING or (name.endswith("_") and not name.endswith("__")) for name in code.co_names)


class ExtraForward:
    """`with ExtraForward(module) as forward: forward(args, kwargs)`.

    `draws` tells afterwards whether random numbers were drawn all the same, by a way that is not known here.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        # Copied once: other processes may write to weights in shared memory from one forward to the next.
        self._state = _copied(dict(_places(module)))
        self._stack = contextlib.ExitStack()
        self.draws = False

    def __enter__(self) -> "ExtraForward":
        self._generators = _generators()
        self._stack.enter_context(torch.no_grad())
        self._stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        self._stack.enter_context(_kept(self._module))
        for part in self._module.modules():
            part.training = False
        return self

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _restore(self._generators)
        copies = _copied(self._state)
        # Not with torch's own search for ties: it swaps the tensors of a part with two names twice, and puts the copies back.
        with torch._C._EnableTorchFunction(), ConstantDraws():
            output = functional_call(self._module, copies, args, kwargs, tie_weights=False)
        self.draws = self.draws or not _are_equal(_generators(), self._generators)
        return output

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        _restore(self._generators)


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors; one with two names stays one."""
    clones = {id(tensor): tensor.detach().clone() for tensor in state.values()}
    return {name: clones[id(tensor)] for name, tensor in state.items()}


def _places(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every place of a parameter or buffer, once: a part with several names has one, a tied weight one in each of its parts."""
    for prefix, part in module.named_modules():
        for name, tensor in (*part._parameters.items(), *part._buffers.items()):
            if tensor is not None:
                yield f"{prefix}.{name}" if prefix else name, tensor


@contextlib.contextmanager
def _kept(module: nn.Module) -> Iterator[None]:
    """Puts back every attribute of a module and its parts, modes among them, and the contents of its lists and dictionaries.

    Tensors that are plain attributes, as a state that is carried along, are copies meanwhile.
    """
    saved = [(part, dict(vars(part)), _contents(part)) for part in module.modules()]
    for part, attributes, _ in saved:
        vars(part).update({name: value.detach().clone() for name, value in attributes.items() if isinstance(value, Tensor)})
    try:
        yield
    finally:
        for part, attributes, contents in saved:
            here = vars(part)
            for name in [name for name in here if name not in attributes]:
                del here[name]
            here.update(attributes)
            for container, content in contents:
                _refill(container, content)


def _contents(part: nn.Module) -> list[tuple[Any, Any]]:
    kinds = (list, dict, set, deque)
    return [(value, value.copy()) for name, value in vars(part).items() if isinstance(value, kinds) and name not in OWN]


def _refill(container: Any, content: Any) -> None:
    kept = len(container) == len(content) and all(a is b for a, b in zip(container, content, strict=False))
    if kept and (not isinstance(container, dict) or all(container[key] is content[key] for key in content)):
        return
    container.clear()
    if isinstance(container, (list, deque)):
        container.extend(content)
    else:
        container.update(content)


def _generators() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    return torch.get_rng_state(), devices, random.getstate(), numpy.random.get_state() if numpy is not None else None


def _are_equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether generators are where they were."""
    return torch.equal(one[0], other[0]) and one[2] == other[2] and _by_bytes(one[3]) == _by_bytes(other[3])


def _by_bytes(state: Any) -> Any:
    """A state of NumPy's with the bytes of its arrays: these compare at once, where their texts take 5 ms."""
    if isinstance(state, dict):  # of other generators than the usual one
        return {name: _by_bytes(value) for name, value in state.items()}
    if isinstance(state, tuple):
        return tuple(map(_by_bytes, state))
    return state.tobytes() if hasattr(state, "tobytes") else state


def _restore(state: tuple[Any, ...]) -> None:
    host, devices, python, numpy_state = state
    torch.set_rng_state(host)
    if devices is not None:
        torch.cuda.set_rng_state_all(devices)
    random.setstate(python)
    if numpy_state is not None:
        sys.modules["numpy"].random.set_state(numpy_state)
