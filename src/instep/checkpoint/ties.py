"""Ties: which tensors of a file share memory. Memory is stored once; every further name becomes a view of it.

Tied weights have two names for one tensor. A decoder that uses the transposed weight of its encoder has a view. Slices of one
buffer that do not touch are no ties, however close they lie.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from instep.checkpoint.strides import covers_itself, extent, is_dense
from instep.errors import CheckpointError
from instep.records import record_class


@record_class
class TensorView:
    """A name for memory that is stored under another: `of`, seen with these sizes and strides from this place on."""

    of: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@record_class
class _Piece:
    name: str
    tensor: Tensor
    begin: int  # in bytes of memory
    end: int


def find_views(tensors: Mapping[str, Tensor], what: str) -> dict[str, TensorView]:
    """The names that are views of others; overlaps that are no view of one whole tensor are refused by name."""
    views: dict[str, TensorView] = {}
    for pieces in _clusters(tensors):
        kept = _without_doubles(pieces, views)
        whole = max(kept, key=lambda piece: piece.end - piece.begin)
        others = [piece for piece in kept if piece is not whole]
        stranger = next((piece for piece in others if not _is_inside(piece, whole)), None)
        if stranger is None:
            _make_views(whole, others, views)
        elif not _are_apart(kept):
            raise CheckpointError(
                f"{what}: {whole.name!r} and {stranger.name!r} share a part of their memory, which a checkpoint cannot keep; "
                "make one of them a clone(), or both slices of a tensor that is kept whole."
            )
    return {name: views[name] for name in tensors if name in views}


def _clusters(tensors: Mapping[str, Tensor]) -> Iterable[list[_Piece]]:
    """Groups of two or more whose spans of memory touch; the first name of the file comes first where spans begin together."""
    pieces: list[_Piece] = []
    for name, tensor in tensors.items():
        places = tensor.numel()
        if not tensor.is_contiguous():  # rare, and the arithmetic takes a while where there are thousands
            places = 0 if covers_itself(tensor) else extent(tensor.shape, tensor.stride())  # an expanded one is kept by value
        if places:
            begin = tensor.data_ptr()
            pieces.append(_Piece(name, tensor, begin, begin + places * tensor.element_size()))
    pieces.sort(key=lambda piece: (str(piece.tensor.device), piece.begin))
    cluster: list[_Piece] = []
    end = 0
    for piece in pieces:
        if cluster and (piece.begin >= end or piece.tensor.device != cluster[0].tensor.device):
            if len(cluster) > 1:
                yield cluster
            cluster, end = [], 0
        cluster.append(piece)
        end = max(end, piece.end)
    if len(cluster) > 1:
        yield cluster


def _without_doubles(pieces: list[_Piece], views: dict[str, TensorView]) -> list[_Piece]:
    """The plain tie: one tensor, two names."""
    first: dict[tuple[object, ...], _Piece] = {}
    for piece in pieces:
        tensor = piece.tensor
        twin = first.setdefault((piece.begin, tensor.dtype, tensor.shape, tensor.stride()), piece)
        if twin is not piece:
            views[piece.name] = TensorView(twin.name, tuple(tensor.shape), tensor.stride(), 0)
    return list(first.values())


def _are_apart(pieces: list[_Piece]) -> bool:
    """Whether no place belongs to two pieces; counted byte by byte, since columns of one matrix interleave."""
    begin, end = min(piece.begin for piece in pieces), max(piece.end for piece in pieces)
    owners = torch.zeros(end - begin, dtype=torch.uint8)
    for piece in pieces:
        size = piece.tensor.element_size()
        shape = (*piece.tensor.shape, size)
        strides = (*(stride * size for stride in piece.tensor.stride()), 1)
        owners.as_strided(shape, strides, piece.begin - begin).add_(1)
    return int(owners.max()) <= 1


def _is_inside(piece: _Piece, whole: _Piece) -> bool:
    """Whether a piece shows elements of the whole, which has no gaps."""
    tensor = whole.tensor
    apart = (piece.begin - whole.begin) % tensor.element_size()
    return (
        whole.begin <= piece.begin
        and piece.end <= whole.end
        and piece.tensor.dtype == tensor.dtype
        and apart == 0
        and is_dense(tensor.shape, tensor.stride())
    )


def _make_views(whole: _Piece, others: list[_Piece], views: dict[str, TensorView]) -> None:
    """Make the others views of the whole; what was tied to one of them is tied to the whole then."""
    for piece in others:
        places = (piece.begin - whole.begin) // whole.tensor.element_size()
        view = TensorView(whole.name, tuple(piece.tensor.shape), piece.tensor.stride(), places)
        twins = [name for name, known in views.items() if known.of == piece.name]
        views.update(dict.fromkeys([piece.name, *twins], view))
