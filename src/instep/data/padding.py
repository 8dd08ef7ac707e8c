"""Padding: a collate for sequences of different lengths, which says what was filled in."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from instep.data.collate import Misfit, collate
from instep.errors import DescriptionError

Value = float | Mapping[Any, float] | Sequence[float]


@dataclass(frozen=True)
class Padding:
    """A collate function that makes sequences equally long; made by `pad`."""

    pad_value: Value = 0
    give: Literal["mask", "lengths"] | None = "mask"
    of: str | int | None = None
    multiple_of: int = 1

    def __call__(self, samples: list[Any]) -> Any:
        first = samples[0]
        self._require_known(first)
        if isinstance(first, Mapping):
            return self._mapping(samples)
        if isinstance(first, tuple) or (
            isinstance(first, list) and any(isinstance(part, Tensor | np.ndarray | list) for part in first)
        ):
            return self._tuple(samples)
        sequence, lengths = self._padded(samples, 0)
        return sequence if self.give is None else (sequence, self._given(sequence, lengths))

    def _require_known(self, sample: Any) -> None:
        """That what was said of a column is said of one that there is."""
        there: list[Any] = (
            list(sample) if isinstance(sample, Mapping) else list(range(len(sample) if isinstance(sample, tuple) else 1))
        )
        asked = [*(self.pad_value if isinstance(self.pad_value, Mapping) else ()), *([] if self.of is None else [self.of])]
        for name in asked:
            if name not in there and str(name) not in map(str, there):
                raise DescriptionError(f"pad() names a column {name!r}; a sample has {', '.join(map(repr, there))}.")
        if isinstance(self.pad_value, Sequence) and len(self.pad_value) != len(there):
            raise DescriptionError(
                f"pad() has {len(self.pad_value)} values for samples of {len(there)} entries; give one for each."
            )
        if self.give is not None and isinstance(sample, Mapping) and self.give in sample:
            raise DescriptionError(
                f"pad() would write over the column {self.give!r} of the samples; rename it, or use give=None."
            )

    def _mapping(self, samples: list[Any]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        told: Tensor | None = None
        for name in samples[0]:
            batch[name], lengths = self._padded([sample[name] for sample in samples], name)
            if told is None and lengths is not None and self.of in (None, name):
                told = self._given(batch[name], lengths)
        if self.give is not None and told is not None:
            batch[self.give] = told
        return batch

    def _tuple(self, samples: list[Any]) -> tuple[Any, ...]:
        parts: list[Any] = []
        told: Tensor | None = None
        for number, column in enumerate(zip(*samples, strict=True)):
            part, lengths = self._padded(list(column), number)
            parts.append(part)
            if told is None and lengths is not None and self.of in (None, number):
                told = self._given(part, lengths)
        return tuple(parts) if self.give is None or told is None else (*parts, told)

    def _padded(self, entries: list[Any], which: str | int) -> tuple[Any, list[int] | None]:
        """A column, and how long its sequences are; None where it holds none."""
        if not isinstance(entries[0], Tensor | np.ndarray | list):
            return collate(entries), None
        sequences = [torch.as_tensor(entry) for entry in entries]
        if sequences[0].ndim == 0:
            return collate(entries), None
        for row, sequence in enumerate(sequences):
            if sequence.ndim == 0 or sequence.shape[1:] != sequences[0].shape[1:]:
                raise Misfit(
                    row,
                    f"has the shape {tuple(sequence.shape)} at [{which!r}], and only the first dimension may differ",
                    f"has {tuple(sequences[0].shape)}",
                )
        lengths = [len(sequence) for sequence in sequences]
        longest = -(-max(lengths) // self.multiple_of) * self.multiple_of
        dtype = functools.reduce(torch.promote_types, (sequence.dtype for sequence in sequences))
        padded = torch.full((len(sequences), longest, *sequences[0].shape[1:]), self._value(which), dtype=dtype)
        for row, sequence in enumerate(sequences):
            padded[row, : len(sequence)] = sequence
        return padded, lengths

    def _value(self, which: str | int) -> float:
        """What a column is filled with: 0 where nothing is said of it."""
        if isinstance(self.pad_value, Mapping):
            return self.pad_value.get(which, self.pad_value.get(str(which), 0))
        if isinstance(self.pad_value, Sequence):
            return self.pad_value[which] if isinstance(which, int) and which < len(self.pad_value) else 0
        return self.pad_value

    def _given(self, padded: Tensor, lengths: list[int] | None) -> Tensor:
        assert lengths is not None
        counted = torch.tensor(lengths)
        return counted if self.give == "lengths" else torch.arange(padded.shape[1]) < counted[:, None]


def pad(
    pad_value: Value = 0,
    *,
    give: Literal["mask", "lengths"] | None = "mask",
    of: str | int | None = None,
    multiple_of: int = 1,
) -> Padding:
    """A `collate_fn=` for sequences of different lengths: each column is filled up to its longest with `pad_value`.

    `pad_value` may differ by column: `{"labels": -100}`, or `(0, -100)` for samples (x, y). `give` adds what was real: a "mask"
    (True where it was) or the "lengths", under that name in a mapping and as the last entry of a tuple; of the first sequence
    in a sample, or of the column `of`. `multiple_of` rounds lengths up.

    >>> pad(give="lengths")([([5, 6, 7], 0), ([8], 1)])
    (tensor([[5, 6, 7],
            [8, 0, 0]]), tensor([0, 1]), tensor([3, 1]))
    """
    if give not in ("mask", "lengths", None):
        raise DescriptionError(f'give={give!r} is not known; use "mask", "lengths", or None for neither.')
    if multiple_of < 1:
        raise DescriptionError(f"multiple_of={multiple_of} must be 1 or more.")
    return Padding(pad_value, give, of, multiple_of)
