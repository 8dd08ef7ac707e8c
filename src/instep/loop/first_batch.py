"""The first batches: mistakes in the validation data are found before the first update, not after the first epoch.

Training needs no trial: its first update is one. A validation set gives a few samples, which go through in eval mode, without
gradients; everything that a forward may change is put back.

A run that would train is never stopped. What fails on a few samples is tried on a whole batch; where training data fails in the
same way, eval mode before the first update is to blame (a memory that training fills), or the first update will say it; and what
a model raises that cannot be put into words, or was raised on purpose, is left to the evaluation. What a metric raises for a
whole batch is said now, whatever it is.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch has it, its stubs do not
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from instep.data.loading.loader import Batch
from instep.errors import ObjectiveError, give_notice
from instep.text import listed

FEW = 2  # samples

Try = Callable[[Batch], object]  # raises what the model, the loss or a metric raises for a batch, in words where there are any


def can_be_tried(*modules: nn.Module) -> bool:
    """Whether all that a forward of these modules changes can be put back."""
    parts = [part for module in modules for part in module.modules()]
    if any(isinstance(part, torch.jit.ScriptModule) for part in parts):
        return False
    if any(isinstance(parameter, UninitializedTensorMixin) for module in modules for parameter in module.parameters()):
        return False
    held = [value for part in parts for value in (*part._buffers.values(), *vars(part).values())]
    return all(_is_plain(value) for value in held if isinstance(value, Tensor))


def _is_plain(tensor: Tensor) -> bool:
    """Whether its values can be compared and written: sparse, quantized and expanded tensors cannot."""
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        return False
    return not any(step == 0 and length > 1 for step, length in zip(tensor.stride(), tensor.shape, strict=True))


def find_mistake(
    few: Callable[[], Batch], whole: Callable[[], Batch], training: Callable[[], Batch], compute: Try, measure: Try
) -> ObjectiveError | None:
    """What is provably wrong with a set of validation data; `compute` gives the loss of a batch, `measure` its metrics too."""
    try:
        if (first := _failure(measure, few())) is None:
            return None
        batch = whole()
        if (failure := _failure(compute, batch)) is not None:
            return failure if isinstance(failure, ObjectiveError) and _failure(compute, training()) is None else None
        failure = _failure(measure, batch)
        if failure is None and isinstance(first, ObjectiveError) and _failure(measure, few()) is None:
            give_notice(f"{first} The same call went well when it was repeated, so the run goes on.")
    except Exception:  # of data that cannot be loaded
        return None
    return failure if isinstance(failure, ObjectiveError) else None


def _failure(attempt: Try, batch: Batch) -> Exception | None:
    try:
        attempt(batch)
    except Exception as error:
        return error
    return None


def require_gradients(optimizer: Optimizer, model: nn.Module) -> RemovableHandle:
    """Refuse the optimizer's first step where none of its parameters has a gradient: nothing would ever train.

    Gives a handle that ends this, as the first step does by itself.
    """

    def look(*_: Any) -> None:
        handle.remove()
        own = [p for group in optimizer.param_groups for p in group["params"]]
        if any(p.grad is not None or p._post_accumulate_grad_hooks for p in own):  # a hook may have stepped with it already
            return
        reached = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
        advice = "no parameter of the model: was it computed with another model than the one that the objective is given?"
        if reached:
            advice = f"{listed(reached)}. Pass these parameters to the optimizer."
        raise ObjectiveError(
            f"no parameter of the optimizer has a gradient, so nothing would be trained; the loss depends on {advice}"
        )

    handle = optimizer.register_step_pre_hook(look)
    return handle


def look_after(optimizer: Optimizer, look: Callable[[], object], *, times: int) -> RemovableHandle:
    """Call `look` after each of the optimizer's next steps, so many times; then nothing is left of it in an update.

    Gives a handle that ends this earlier.
    """
    left = times

    def after_step(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            handle.remove()
        look()

    handle = optimizer.register_step_post_hook(after_step)
    return handle
