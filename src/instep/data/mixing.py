"""Mixing: mixup and cutmix, batch transforms that mix each sample with another one of its batch, and the targets alike.

A batch transform is seeded by the place of its batch, so a run that is resumed, or loaded by other workers, mixes the same way.
It works on the whole batch before that is cut into micro-batches. Targets become shares of the classes, of which torch's
cross-entropy is the mean over the samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from instep.data.device import readable
from instep.data.structure import entries, rebuilt
from instep.errors import DataError, DescriptionError

Entry = str | int


@dataclass(frozen=True)
class Mixing:
    """Mixes the samples of a batch; made by `mixup` and `cutmix`."""

    kind: Literal["mixup", "cutmix"]
    alpha: float
    classes: int | None
    share: float
    input: Entry
    target: Entry

    def __call__(self, batch: Any) -> Any:
        there = dict(entries(batch))
        for name in (self.input, self.target):
            if not isinstance(there.get(name), Tensor):
                has = ", ".join(map(repr, there)) or f"a {type(batch).__name__}"
                raise DataError(
                    f"{self.kind}() mixes the entries {self.input!r} and {self.target!r} of a batch, and {name!r} is no tensor "
                    f"in it; it has {has}. Say which ones with input= and target=."
                )
        x, y = there[self.input], self._shares(there[self.target], there[self.input].dtype)
        if self.share < 1 and np.random.random() >= self.share:
            kept = 1.0  # as it is, but for the form of the target
        else:
            kept = float(np.random.beta(self.alpha, self.alpha))  # from the host: nothing waits for a device
            x, kept = mix_all(x, kept) if self.kind == "mixup" else paste_box(x, kept)
        there |= {self.input: x, self.target: y if kept == 1 else torch.lerp(y.roll(1, 0), y, kept)}
        return rebuilt(batch, list(there.values()))

    def _shares(self, target: Tensor, dtype: torch.dtype) -> Tensor:
        """Class numbers as rows of shares; what is a number or a share already is mixed as it is."""
        if target.is_floating_point():
            return target
        if self.classes is None:
            raise DataError(f"{self.kind}() gets class numbers as targets; say how many classes there are: classes=10.")
        if readable(target) and target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.classes:
            raise DataError(
                f"{self.kind}(classes={self.classes}) gets targets from {int(target.min())} to {int(target.max())}; class "
                f"numbers are 0 to {self.classes - 1}, and a target that a loss ignores cannot be mixed."
            )
        shares = one_hot(target.long(), self.classes)
        return (shares.movedim(-1, 1) if target.ndim > 1 else shares).to(
            dtype if dtype.is_floating_point else torch.get_default_dtype()
        )


def mixup(alpha: float = 0.2, *, classes: int | None = None, share: float = 1.0, input: Entry = 0, target: Entry = 1) -> Mixing:
    """A `batch_transform=` that mixes each sample with its neighbour in the (shuffled) batch: λ·x + (1 - λ)·x', targets alike.

    λ is drawn from Beta(alpha, alpha) once a batch. Class numbers become shares of `classes`, which `cross_entropy` takes;
    numbers stay numbers. `share` is how many of the batches are mixed. `input` and `target` name the two entries of a batch.

    >>> x, y = torch.tensor([[0.0], [8.0]]), torch.tensor([0, 1])
    >>> np.random.seed(0)
    >>> mixed, shares = mixup(1.0, classes=2)((x, y))
    >>> bool((mixed[0] == 8 * shares[0, 1]).all()), shares.sum(1)
    (True, tensor([1., 1.]))
    """
    return _made("mixup", alpha, classes, share, input, target)


def cutmix(alpha: float = 1.0, *, classes: int | None = None, share: float = 1.0, input: Entry = 0, target: Entry = 1) -> Mixing:
    """A `batch_transform=` that pastes a box of its neighbour's image into each image, (n, channels, height, width), and mixes
    the targets by the area. The arguments are those of `mixup`.

    >>> x, y = torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 2, 1])
    >>> images, shares = cutmix(classes=3)((x, y))
    >>> images.shape, shares.shape
    (torch.Size([4, 1, 8, 8]), torch.Size([4, 3]))
    """
    return _made("cutmix", alpha, classes, share, input, target)


def mix_all(x: Tensor, kept: float) -> tuple[Tensor, float]:
    if not x.is_floating_point():
        raise DataError(f"mixup() mixes numbers, and the input is {x.dtype}; make it float first, in transform= or before.")
    return torch.lerp(x.roll(1, 0), x, kept), kept


def paste_box(x: Tensor, kept: float) -> tuple[Tensor, float]:
    """The box has its centre anywhere and an area of 1 - kept, as far as it is inside; returns the share that is really kept."""
    if x.ndim < 3:
        raise DataError(f"cutmix() pastes boxes into images (n, channels, height, width), and the input has {tuple(x.shape)}.")
    height, width = x.shape[-2:]
    side = (1 - kept) ** 0.5 / 2
    middle = np.random.random(2).tolist()
    top, bottom = (round(min(max(middle[0] + sign * side, 0), 1) * height) for sign in (-1, 1))
    left, right = (round(min(max(middle[1] + sign * side, 0), 1) * width) for sign in (-1, 1))
    pasted = x.clone()
    pasted[..., top:bottom, left:right] = x.roll(1, 0)[..., top:bottom, left:right]
    return pasted, 1 - (bottom - top) * (right - left) / (height * width)


def _made(
    kind: Literal["mixup", "cutmix"], alpha: float, classes: int | None, share: float, input: Entry, target: Entry
) -> Mixing:
    if not isinstance(alpha, int | float) or isinstance(alpha, bool | Mapping) or not alpha > 0:
        raise DescriptionError(f"{kind}(alpha={alpha!r}) must be above 0, like 0.2; a larger one mixes more evenly.")
    if classes is not None and (not isinstance(classes, int) or isinstance(classes, bool) or classes < 2):
        raise DescriptionError(f"{kind}(classes={classes!r}) must be a whole number, 2 or more.")
    if not 0 < share <= 1:
        raise DescriptionError(f"{kind}(share={share!r}) must be above 0 and at most 1: how many of the batches are mixed.")
    return Mixing(kind, float(alpha), classes, float(share), input, target)
