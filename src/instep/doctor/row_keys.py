"""A row: by which number it is known, what it tells, and where it stood when it came last."""

from collections import Counter
from itertools import pairwise

import torch
from torch import Tensor

ROWS = 20_000  # rows of one loader or root that are remembered
COLUMNS = 64
WHOLE = (torch.int64, torch.int32, torch.int16, torch.uint8)


class Order:
    """Where the rows of one root stood when they came last, which tells samples that are shuffled from steps of a sequence.

    Of a sequence, two steps that come together again come in the same order. Padding, one-hot letters and the like tell nothing;
    nor do sequences of any length, and vectors that are there more than once, as words are.
    """

    __slots__ = ("again", "calls", "epoch", "given", "is_new", "places", "reversed", "sizes", "words")

    def __init__(self) -> None:
        self.places: dict[float, tuple[int, int]] = {}  # row -> (call, position)
        self.sizes: Counter[int] = Counter()
        self.calls = self.reversed = 0
        self.given = self.again = 0  # rows that tell something, each as often as it came, and those that had come before
        self.words = False
        self.is_new = True  # no row has come again so far
        self.epoch = 0  # calls before the first in which all rows came again, none before

    def add(self, input: Tensor, keys: list[float]) -> int:
        """Note the rows of a call; gives how many pairs have been seen in either order, 0 where that proves nothing."""
        self.calls += 1
        self.sizes[len(keys)] += 1
        vectors = input.is_floating_point() and (input.dim() == 2 or (input.dim() == 3 and input.shape[1] == 1))
        self.words = self.words or (vectors and len(set(keys)) < len(keys))
        before: dict[int, list[int]] = {}  # earlier call -> the positions there of rows that are here, in the order of here
        known_rows = [key in self.places for key in keys]
        telling = known_rows if all(known_rows) else telling_rows(input)  # only rows that tell something are remembered
        for position, (key, told) in enumerate(zip(keys, telling, strict=True)):
            known = self.places.get(key)
            if told and known is not None and known[0] < self.calls:
                before.setdefault(known[0], []).append(known[1])
            if told and (known is not None or len(self.places) < ROWS):
                self.places[key] = (self.calls, position)
        again = sum(map(len, before.values()))
        self.given, self.again = self.given + sum(telling), self.again + again
        if self.is_new and again:
            self.is_new = False
            self.epoch = self.calls - 1 if again == len(keys) else 0
        self.reversed += sum(a > b for positions in before.values() for a, b in pairwise(positions))
        steady = self.sizes.most_common(1)[0][1] >= 0.8 * self.calls
        return self.reversed if steady and not self.words else 0


def telling_rows(input: Tensor) -> list[bool]:
    """For each row: whether it holds at least five different numbers."""
    told: list[bool] = (_columns(input).sort(1).values.diff(dim=1) != 0).sum(1).ge(4).tolist()
    return told


_WEIGHTS: dict[int, Tensor] = {}


def is_dense(tensor: Tensor) -> bool:
    """Whether its numbers lie in rows: not those of a sparse or nested tensor."""
    return tensor.layout is torch.strided and not tensor.is_nested


def row_keys(tensor: Tensor) -> list[float]:
    """A number for each row, equal for equal rows; none where looking would make the program wait."""
    if tensor.device.type != "cpu" or not is_dense(tensor) or tensor.is_complex():
        return []
    if not tensor.dim() or not tensor.numel() or len(tensor) > 4096:
        return []
    rows = _columns(tensor)
    columns = rows.shape[1]
    weights = _WEIGHTS.get(columns)
    if weights is None:
        weights = _WEIGHTS[columns] = torch.sin(torch.arange(1, columns + 1, dtype=torch.float64) * 12.9898) + 1.7
    keys: list[float] = (
        (rows.to(torch.float64) * weights).sum(1).to(torch.float32).tolist()
    )  # rounded: sums may differ in the last bit
    return keys


def _columns(tensor: Tensor) -> Tensor:
    """A few numbers of each row, spread over it."""
    rows = tensor.detach().reshape(len(tensor), -1)
    return rows[:, :: rows.shape[1] // COLUMNS] if rows.shape[1] > COLUMNS else rows


def glimpse(input: Tensor) -> tuple[float, ...]:
    """How many rows, and a few numbers spread over them; nothing where looking would make the program wait."""
    if (
        input.device.type != "cpu"
        or input.is_complex()
        or not input.dim()
        or input.is_nested
        or input.layout is not torch.strided
    ):
        return ()
    flat = input.detach().reshape(-1)
    return (len(input), *flat[:: max(len(flat) // 16, 1)].tolist())


def is_rich(tensor: Tensor) -> bool:
    """Whether equal rows are hardly there by chance: many real numbers in each."""
    if tensor.device.type != "cpu" or not is_dense(tensor):
        return False
    if tensor.dim() < 2 or not tensor.is_floating_point() or tensor[0].numel() < 4:
        return False
    row = tensor[0].detach().reshape(-1)[:64]
    return bool((row != row.round()).sum() >= 3)


def is_telling(tensor: Tensor) -> bool:
    """The same of rows of whole numbers, as words: many in each, and of several kinds."""
    if tensor.device.type != "cpu" or not is_dense(tensor) or tensor.dim() != 2 or tensor.dtype not in WHOLE:
        return False
    return tensor.shape[1] >= 12 and all(telling_rows(tensor[:4]))


def class_numbers(target: Tensor) -> Tensor | None:
    """Class numbers, one a sample; those of two classes may be real numbers, as binary losses want them. Else None."""
    if target.device.type != "cpu" or not is_dense(target):
        return None
    if target.dim() == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.dim() != 1 or target.is_complex():
        return None
    if target.is_floating_point() and not bool(((target == 0) | (target == 1)).all()):
        return None
    return target.long()
