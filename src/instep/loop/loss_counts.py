"""What the mean of a loss of torch's divides by: a function of its arguments, chosen by the options of the loss."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from instep.data.device import readable
from instep.loop.loss_forms import Arguments

Count = Callable[[Arguments], Tensor | int]
Setting = Callable[[str], Any]  # the name of an option -> its value now, None where the loss has no such option


def broadcast(*shapes: torch.Size) -> torch.Size:
    """The common shape. torch's own function takes 13 µs, also where the shapes are equal, as they mostly are."""
    first, *others = shapes
    if all(shape == first for shape in others):
        return first
    return torch.Size(torch.broadcast_shapes(*shapes))


def elements(arguments: Arguments) -> int:
    """Elements of what the arguments broadcast to."""
    return math.prod(broadcast(*(argument.shape for argument in arguments)))


def elements_of_two(arguments: Arguments) -> int:
    """Gaussian NLL: a variance is broadcast to input and target in a way of its own, and adds no elements."""
    return elements(arguments[:2])


def rows(arguments: Arguments) -> int:
    """(N, C) -> N, (C) -> 1. What a user's distance makes of a row is unknown, but the same for all, so it cancels."""
    return math.prod(broadcast(*(argument.shape for argument in arguments))[:-1])


def pairs(arguments: Arguments) -> int:
    """Cosine embedding: (N, D), (N, D), target (N) -> N."""
    one, two, target = arguments
    return math.prod(broadcast(one.shape[:-1], two.shape[:-1], target.shape))


def samples(arguments: Arguments) -> int:
    """The first dimension of the input, which KL's "batchmean" divides by; 1 where there is none."""
    return math.prod(arguments[0].shape[:1])


def labels(arguments: Arguments) -> int:
    """Multi-margin: one label a sample; its class weights are multiplied with, not divided by."""
    return math.prod(arguments[1].shape)


def sequences(arguments: Arguments) -> int:
    """CTC: log_probs (T, N, C) -> N, (T, C) -> 1. Each sequence is divided by its own length before the mean."""
    return math.prod(arguments[0].shape[1:-1])


def always(count: Count) -> Callable[[Setting], Count]:
    """The count that no option changes."""
    return lambda setting: count


def by_reduction(setting: Setting) -> Count:
    return samples if setting("reduction") == "batchmean" else elements


def by_weight(setting: Setting) -> Count:
    """l1_loss and mse_loss divide by Σ weight where they have one; huber_loss has one too and divides by elements."""
    return elements if setting("weight") is None else lambda arguments: summed(setting("weight"))


def by_classes(setting: Setting) -> Count:
    """Cross-entropy and NLL, the target their last argument. Label smoothing changes none of it.

    class indices:       targets that are not ignored; with class weights Σ weight[y] over these
    class probabilities: (N, C, d₁, …) -> N·d₁·…, with or without weights; nothing is ignored
    """
    option = setting("ignore_index")
    ignore_index: int = -100 if option is None else option  # linear_cross_entropy's None is the -100 of the others

    may_all_count = ignore_index < 0  # until some were ignored: the other batches are likely to have such ones too

    def kept(arguments: Arguments) -> Tensor | int:
        nonlocal may_all_count
        target = arguments[-1]
        if target.is_floating_point():
            return probabilities(target)
        if may_all_count and readable(target) and target.numel():
            if target.min().item() >= 0:
                return int(target.numel())  # nothing is ignored, found with one operation instead of two
            may_all_count = False
        return torch.count_nonzero(indices(target) != ignore_index)

    def weight_of_kept(arguments: Arguments) -> Tensor | int:
        target = arguments[-1]
        if target.is_floating_point():
            return probabilities(target)
        target = indices(target).flatten()
        is_kept = target != ignore_index
        # An ignored target may be no index, so it looks up class 0: picking out the kept would wait for the device.
        weights = setting("weight").index_select(0, target * is_kept)
        return summed(torch.where(is_kept, weights, 0))

    return kept if setting("weight") is None else weight_of_kept


def indices(target: Tensor) -> Tensor:
    """Class indices as int64. torch takes uint8 too, where 156 would equal an ignore_index of -100."""
    return target if target.dtype is torch.int64 else target.long()


def probabilities(target: Tensor) -> int:
    """Distributions in a target of (C) or (N, C, d₁, …). torch knows these by their shape and insists on the dtype."""
    return math.prod(target.shape[:1]) * math.prod(target.shape[2:]) if target.dim() > 1 else 1


def summed(weights: Tensor) -> Tensor:
    """Σ, at least in float32: in bfloat16 a sum stands still at 256."""
    return weights.detach().sum(dtype=torch.promote_types(weights.dtype, torch.float32))
