"""torch's `backward()` and `step()`, without the Python around them where nobody asks for what it offers.

`Tensor.backward()` takes lists of tensors, chosen inputs and tensor subclasses; `Optimizer.step()` makes an entry for the
profiler and calls hooks. For one plain loss and an optimizer without hooks that is a tenth of the update of a small model. What
they come to is called here at once, also where a scheduler of torch's counts the steps; where somebody has a hook, a profiler, a
subclass or a method of their own, it is torch's own call. Importing this file also keeps torch's optimizers from importing
`torch._dynamo` (optim/without_dynamo.py).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import graph
from torch.optim import Adam, Optimizer
from torch.optim import optimizer as hooks
from torch.optim.lr_scheduler import LRScheduler

from instep.optim.fused_adam import FusedAdam
from instep.optim.without_dynamo import spare_dynamo, without_dynamo

_ENGINE: Any = getattr(graph, "_engine_run_backward", None)
_OWN_BACKWARD = (Tensor.backward, torch.autograd.backward)
_WRAPPER = Optimizer.profile_hook_step(lambda: None).__code__  # what torch puts around the step of every class
_ADAM_STEP: Any = getattr(Adam.step, "__wrapped__", None) if getattr(Adam.step, "__code__", None) is _WRAPPER else Adam.step
_SCHEDULERS_FILE = LRScheduler.__init__.__code__.co_filename
_HOOKS_OF_ALL: tuple[dict[int, Any], ...] = (hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks)


def backward(value: Tensor) -> None:
    """`value.backward()` of a loss that is one number."""
    is_plain = type(value) is Tensor and (Tensor.backward, torch.autograd.backward) == _OWN_BACKWARD
    if _ENGINE is None or not is_plain or torch._C._are_functorch_transforms_active():
        value.backward()
        return
    _ENGINE((value,), (torch.ones_like(value),), False, False, (), allow_unreachable=True, accumulate_grad=True)


def step(optimizer: Optimizer, fused: FusedAdam | None = None) -> None:
    """`optimizer.step()`; `fused` makes it where it can."""
    function: Any = type(optimizer).step
    own = vars(optimizer).get("step")
    if getattr(function, "__code__", None) is not _WRAPPER or not (own is None or _is_of_a_scheduler(own, function)):
        optimizer.step()
        return
    if own is not None:
        optimizer._opt_called = True  # type: ignore[attr-defined]
    if (
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _HOOKS_OF_ALL[0]
        or _HOOKS_OF_ALL[1]
        or torch._C._autograd._profiler_enabled()
    ):
        Optimizer.profile_hook_step(without_dynamo(function.__wrapped__))(optimizer)
    elif fused is None or function.__wrapped__ is not _ADAM_STEP:
        without_dynamo(function.__wrapped__)(optimizer)
    elif not fused.step():
        without_dynamo(function.__wrapped__)(optimizer)
        fused.look()


def _is_of_a_scheduler(own: Any, function: Any) -> bool:
    """Whether this step is what torch's schedulers put before that of the class: it notes that there was a step, and calls it."""
    if not getattr(own, "_wrapped_by_lr_sched", False) or getattr(own, "__wrapped__", None) is not function:
        return False
    code = getattr(own, "__code__", None)
    return code is not None and code.co_filename == _SCHEDULERS_FILE and "_opt_called" in code.co_names


spare_dynamo()
