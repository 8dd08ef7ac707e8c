"""Remedies of losses: another input or target goes into torch's loss function."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from instep.doctor.curves import wrap
from instep.doctor.remedies import Fix

VIEWS = ("View", "Reshape", "Unsafe", "Permute", "Transpose", "T", "Squeeze", "Unsqueeze", "Slice", "Select", "Clone", "Alias")
BEFORE = "_instep_before"  # the attribute of a result that holds what the softmax or sigmoid was given


def take_out_softmax(fix: Fix) -> None:
    """Cross-entropy gets what stood before the softmax, or sigmoid."""
    _take_out(fix, "cross_entropy", ("softmax", "sigmoid"))


def take_out_sigmoid(fix: Fix) -> None:
    """Binary cross-entropy with logits gets what stood before the sigmoid, or softmax."""
    _take_out(fix, "binary_cross_entropy_with_logits", ("sigmoid", "softmax"))


def _take_out(fix: Fix, loss: str, squashers: tuple[str, ...]) -> None:
    for name in squashers:
        for owner in (torch, Tensor, functional):
            wrap(owner, name, _remember)

    def around(original: Callable[..., Any], input: Tensor, *args: Any, **kwargs: Any) -> Any:
        before, wrong = _before(input), functools.partial(original, input, *args, **kwargs)
        return wrong() if before is None else fix.choose(wrong, lambda: original(before, *args, **kwargs))

    wrap(functional, loss, around)


def _remember(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = original(*args, **kwargs)
    if isinstance(result, Tensor) and args and isinstance(args[0], Tensor) and not hasattr(args[0], BEFORE):
        setattr(result, BEFORE, args[0])
    return result


def _before(input: Tensor) -> Tensor | None:
    """What the softmax or sigmoid was given; by its inverse where only its result is at hand, which gives the same loss."""
    known: Tensor | None = getattr(input, BEFORE, None)
    if known is not None and known.shape == input.shape:
        return known
    node = input.grad_fn
    while node is not None and node.name().startswith(VIEWS) and node.next_functions:
        node = node.next_functions[0][0]
    name = node.name() if node is not None else ""
    if name.startswith("SoftmaxBackward") or _are_probabilities(input):
        return _logarithm(input)
    return torch.logit(input, eps=1e-7) if name.startswith("SigmoidBackward") else None


def _logarithm(input: Tensor) -> Tensor:
    return input.clamp_min(torch.finfo(input.dtype).tiny).log()


def _are_probabilities(input: Tensor) -> bool:
    """Whether they are by their values: never negative, with a sum of 1 over the classes."""
    if not input.is_floating_point() or input.dim() < 2 or input.shape[1] < 2:
        return False
    values = input.detach()
    return bool((values >= 0).all()) and bool(((values.sum(1) - 1).abs() < 1e-3).all())


def normalise(fix: Fix) -> None:
    """NLL loss gets log-probabilities, whatever it was given."""

    def around(original: Callable[..., Any], input: Tensor, *args: Any, **kwargs: Any) -> Any:
        wrong = functools.partial(original, input, *args, **kwargs)
        if float(input.detach().logsumexp(1).abs().max()) <= 1e-3:
            return wrong()
        normalised = _logarithm(input) if _are_probabilities(input) else input.log_softmax(1)
        return fix.choose(wrong, lambda: original(normalised, *args, **kwargs))

    wrap(functional, "nll_loss", around)


def take_logarithms(fix: Fix) -> None:
    """KL divergence gets the logarithm of an input that has values above 0."""

    def around(original: Callable[..., Any], input: Tensor, *args: Any, **kwargs: Any) -> Any:
        wrong = functools.partial(original, input, *args, **kwargs)
        if not bool((input.detach() > 0).any()):
            return wrong()
        return fix.choose(wrong, lambda: original(_logarithm(input), *args, **kwargs))

    wrap(functional, "kl_div", around)


def shape_target(fix: Fix) -> None:
    """A target of as many elements as the prediction gets its shape."""

    def around(original: Callable[..., Any], input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
        wrong = functools.partial(original, input, target, *args, **kwargs)
        if input.shape == target.shape or input.numel() != target.numel():
            return wrong()
        return fix.choose(wrong, lambda: original(input, target.reshape(input.shape), *args, **kwargs))

    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        wrap(functional, name, around)


def ignore_padding(fix: Fix) -> None:
    """Cross-entropy ignores the value that the finding names."""

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        wrong = functools.partial(original, *args, **kwargs)
        if not fix.is_here() or len(args) > 4:
            return wrong()
        return fix.choose(wrong, lambda: original(*args, **{**kwargs, "ignore_index": fix.evidence["value"]}))

    wrap(functional, "cross_entropy", around)
