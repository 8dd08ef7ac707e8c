"""Models in pieces: an embedding, a body and a head that are called one after the other, none of them inside another.

The body is not given words but their vectors, so that nobody sees from its own input what it is to predict. Where the words that
were embedded before are the targets one position earlier, and what it gives goes on to the loss, position by position, it is the
body that must not look ahead.
"""

from typing import Any

import torch
from torch import Tensor

from instep.doctor.arguments import outputs_of
from instep.doctor.positions import shifted

LONGEST = 16  # calls of pieces between two backwards that are known


class Chain:
    """The calls since the last backward: root, words that were given, vectors that were given, where what it gave lies."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, list[Tensor], list[tuple[int, tuple[int, ...], int]], set[int]]] = []

    def add(self, number: int, given: list[Tensor], output: Any) -> None:
        """Note a call."""
        if len(self._calls) >= LONGEST:
            return
        words = [each.detach() for each in given if each.dim() == 2 and not each.is_floating_point() and _is_plain(each)]
        vectors = [
            (place, tuple(each.shape), each.untyped_storage().data_ptr())
            for place, each in enumerate(given)
            if each.dim() == 3 and each.is_floating_point() and each.requires_grad and _is_plain(each)
        ]
        gave = {each.untyped_storage().data_ptr() for each in outputs_of(output) if each.dim() == 3 and _is_plain(each)}
        if words or vectors:
            self._calls.append((number, words, vectors, gave))

    def end(self) -> None:
        """A backward comes."""
        self._calls.clear()

    def shifted(self, target: Tensor) -> list[tuple[int, int, int]]:
        """Pieces whose vectors stand for words that the target follows, with the place of that input and its time axis.

        Of several inputs of words it is the last that matters: a decoder's own, after what it translates.
        """
        for at in range(len(self._calls) - 1, -1, -1):
            for words in self._calls[at][1]:
                axis = shifted(words, target)
                if axis is not None:
                    return self._after(at, tuple(words.shape), axis)
        return []

    def _after(self, at: int, shape: tuple[int, ...], axis: int) -> list[tuple[int, int, int]]:
        found = []
        for later in range(at + 1, len(self._calls)):
            number, _, vectors, gave = self._calls[later]
            fits = [place for place, size, _ in vectors if size[:2] == shape]
            goes_on = later + 1 == len(self._calls) or any(where in gave for _, _, where in self._calls[later + 1][2])
            if len(vectors) == len(fits) == 1 and goes_on:
                found.append((number, fits[0], axis))
        return found


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout is torch.strided and tensor.device.type != "meta"
