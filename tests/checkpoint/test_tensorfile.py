"""Tensor files: every tensor comes back bit for bit, laid out and tied as it was; other libraries can read them."""

import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from checkpoint.made import bits, same
from instep.checkpoint import header
from instep.checkpoint.dtypes import NAMES, STORED_AS
from instep.checkpoint.layout import plan_layout
from instep.checkpoint.tensorfile import chunks_of, read_tensors
from instep.errors import CheckpointError


def as_file(tensors: dict[str, Tensor]) -> bytes:
    layout = plan_layout(tensors, "model")
    return b"".join(chunks_of(layout, tensors, header.render(layout, "model")))


def from_file(content: bytes) -> dict[str, Tensor]:
    return read_tensors(io.BytesIO(content), len(content))[0]


def back(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return from_file(as_file(tensors))


def filled(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """All kinds of bit patterns, infinities and payloads of nan among them."""
    count = torch.Size(shape).numel() * dtype.itemsize
    content = torch.randint(0, 2 if dtype is torch.bool else 256, (count,), dtype=torch.uint8)
    return content.view(dtype).view(shape)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", [*NAMES, *STORED_AS], ids=str)
def test_every_dtype_is_kept_bit_for_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensors = {
        "matrix": filled((3, 5), dtype),
        "scalar": filled((), dtype),
        "empty": filled((0, 2), dtype),
        "one": filled((1,), dtype),
    }
    assert {name: same(tensors[name], tensor) for name, tensor in back(tensors).items()} == dict.fromkeys(tensors, True)


LAYOUTS = {
    "transposed": lambda: torch.randn(3, 5).t(),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "channels last, one channel": lambda: torch.randn(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "channels last 3d": lambda: torch.randn(2, 3, 2, 4, 5).to(memory_format=torch.channels_last_3d),
    "permuted": lambda: torch.randn(2, 3, 4).permute(2, 0, 1),
    "a slice from the middle": lambda: torch.randn(10)[3:7],
    "transposed complex": lambda: torch.randn(3, 5, dtype=torch.complex128).t(),
    "transposed half": lambda: torch.randn(3, 5, dtype=torch.bfloat16).t(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_dense_tensor_keeps_its_strides(name: str) -> None:
    tensor = LAYOUTS[name]()
    assert same(tensor, back({"x": tensor})["x"])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6)[:, ::2],
        torch.randn(3).expand(4, 3),
        torch.arange(5).flip(0)[::2],
        torch.randn(3, dtype=torch.complex64).conj(),
    ],
    ids=["every second column", "expanded", "reversed", "conjugated"],
)
def test_what_is_not_dense_keeps_its_values(tensor: Tensor) -> None:
    returned = back({"x": tensor})["x"]
    assert returned.is_contiguous()
    assert bits(returned) == bits(tensor)


shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.tuples(shapes, st.sampled_from(list(NAMES)), st.randoms()), max_size=5))
def test_any_tensors_come_back(described: dict[str, Any]) -> None:
    tensors = {}
    for name, (shape, dtype, random) in described.items():
        tensor = filled(shape, dtype)
        tensors[name] = tensor.permute(random.sample(range(len(shape)), len(shape)))
    returned = back(tensors)
    assert set(returned) == set(tensors)
    for name, tensor in tensors.items():
        assert bits(returned[name]) == bits(tensor)
        assert returned[name].shape == tensor.shape
        assert returned[name].stride() == tensor.stride() or tensor.numel() == 0


# --- Ties


def test_tied_weights_are_stored_once_and_come_back_as_one() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    content = as_file(model.state_dict())
    returned = from_file(content)
    assert returned["0.weight"] is returned["1.weight"]
    assert len(content) < 2 * 8 * 8 * 4


def test_a_transposed_tie_comes_back_as_a_view() -> None:
    weight = torch.randn(3, 5)
    returned = back({"decoder": weight.t(), "encoder": weight})
    assert same(returned["decoder"], weight.t())
    returned["encoder"].fill_(7)
    assert torch.all(returned["decoder"] == 7)


def test_pieces_of_a_flat_buffer_come_back_as_pieces() -> None:
    flat = torch.arange(10.0)
    returned = back({"bias": flat[6:], "weight": flat[:6].view(2, 3).t(), "flat": flat, "again": flat[6:]})
    returned["flat"].zero_()
    assert [bool(tensor.any()) for tensor in returned.values()] == [False] * 4
    assert returned["weight"].stride() == (1, 3)


def test_slices_that_do_not_touch_are_no_ties() -> None:
    whole = torch.arange(12.0).view(3, 4)
    tensors = {"left": whole[:, :2], "right": whole[:, 2:]}
    returned = back(tensors)
    returned["left"].zero_()
    assert bits(returned["right"]) == bits(tensors["right"])


def test_tensors_that_share_a_part_of_their_memory_are_refused_by_name() -> None:
    whole = torch.arange(10.0)
    with pytest.raises(
        CheckpointError, match=r"model: 'front' and 'back' share a part of their memory.*make one of them a clone\(\)"
    ):
        plan_layout({"front": whole[:6], "back": whole[5:]}, "model")
    with pytest.raises(CheckpointError, match="'number' and 'bits' share a part"):
        plan_layout({"number": whole, "bits": whole.view(torch.int32)}, "model")


# --- What cannot be kept


class Wrapped(Tensor):
    pass


REFUSED: dict[str, Callable[[], Tensor]] = {
    "layout torch.sparse_coo": lambda: torch.eye(2).to_sparse(),
    "layout torch.sparse_csr": lambda: torch.eye(2).to_sparse_csr(),
    "is on the meta device and has no values": lambda: torch.empty(2, device="meta"),
    r"is a checkpoint\.test_tensorfile\.Wrapped|is a .*Wrapped, and a checkpoint keeps plain tensors": lambda: torch.ones(
        2
    ).as_subclass(Wrapped),
    "is a lazy parameter without a shape; run the model once": lambda: nn.LazyLinear(3).weight,
    "is quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
    "has the dtype torch.uint4": lambda: torch.empty(2, dtype=torch.uint4),  # type: ignore[attr-defined]
    "and a checkpoint keeps dense tensors only": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


@pytest.mark.filterwarnings("ignore")  # torch calls half of these experimental
@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_kept_is_refused_by_name(words: str) -> None:
    with pytest.raises(CheckpointError, match=f"ema: 'layer.x' .*({words})"):
        plan_layout({"fine": torch.ones(1), "layer.x": REFUSED[words]()}, "ema")


def test_the_name_that_the_format_keeps_for_itself_is_refused() -> None:
    with pytest.raises(CheckpointError, match="a tensor cannot be called __metadata__"):
        as_file({"__metadata__": torch.ones(1)})


# --- Others' files


def test_the_safetensors_package_reads_our_files(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 4).t(),
        "b": torch.tensor(True),
        "c": torch.randn(2, dtype=torch.bfloat16),
        "d": torch.zeros(0, 3),
    }
    (tmp_path / "x.safetensors").write_bytes(as_file(tensors))
    returned = safetensors.torch.load_file(tmp_path / "x.safetensors")
    assert all(bits(returned[name]) == bits(tensors[name]) and returned[name].shape == tensors[name].shape for name in tensors)


def test_we_read_the_safetensors_package_s_files() -> None:
    tensors = {
        "a": torch.randn(3, 4),
        "b": torch.tensor(True),
        "c": torch.randn(2, dtype=torch.complex64),
        "d": torch.zeros(0, 3),
    }
    returned = from_file(safetensors.torch.save(tensors, {"epoch": "3"}))
    assert all(same(returned[name], tensors[name]) for name in tensors)


def test_data_begin_at_multiples_of_their_element_s_size() -> None:
    content = as_file(
        {"byte": torch.ones(3, dtype=torch.uint8), "half": torch.ones(1, dtype=torch.half), "double": torch.ones(1).double()}
    )
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    assert [entries[name]["data_offsets"][0] for name in ("double", "half", "byte")] == [0, 8, 10]


# --- Hostile headers


def file_of(entries: Any, data: bytes = b"") -> bytes:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def notes(**changes: Any) -> dict[str, Any]:
    return {"instep": json.dumps({"dtypes": {}, "strides": {}, "views": {}} | changes)}


HOSTILE = [
    (b"", b"", "ends before its header does"),
    (b"{", b"", "header is not valid JSON"),
    (b"[]", b"", "header is no JSON object"),
    (b'{"a":' + b"[" * 1000, b"", "header is made of brackets"),
    ({"a": 3}, b"", "tensor 'a' is not described by dtype, shape and data_offsets"),
    ({"a": entry() | {"more": 1}}, b"1234", "is not described by"),
    ({"a": entry("F99")}, b"1234", "has the unknown dtype 'F99'"),
    ({"a": entry(["F32"])}, b"1234", "has the unknown dtype"),
    ({"a": entry(shape=[-1])}, b"1234", "shape of tensor 'a' are no whole numbers"),
    ({"a": entry(shape=[True])}, b"1234", "are no whole numbers"),
    ({"a": entry(shape=[1.0])}, b"1234", "are no whole numbers"),
    ({"a": entry(shape=7)}, b"1234", "are no whole numbers"),
    ({"a": entry(shape=[2**62])}, b"1234", "are no whole numbers"),
    ({"a": entry(shape=[2**40, 2**40], offsets=[0, 2**82])}, b"1234", "data_offsets of tensor 'a' are no whole numbers"),
    ({"a": entry(shape=[2**38], offsets=[0, 2**40])}, b"1234", "describes 1,099,511,627,776 bytes of data, it has 4"),
    ({"a": entry(shape=[1] * 65)}, b"1234", "a shape that does not fit"),
    ({"a": entry(shape=[2])}, b"1234", "a shape that does not fit its place"),
    ({"a": entry(offsets=[4, 0])}, b"1234", "a shape that does not fit its place"),
    ({"a": entry(offsets=[0, 4, 8])}, b"1234", "a shape that does not fit its place"),
    ({"a": entry(), "b": entry()}, b"1234", "tensor 'b' begins at byte 0 of the data, not at 4"),
    ({"a": entry(), "b": entry(offsets=[2, 6])}, b"123456", "begins at byte 2 of the data, not at 4"),
    ({"a": entry(), "b": entry(offsets=[8, 12])}, b"123456789012", "begins at byte 8 of the data, not at 4"),
    ({"a": entry()}, b"12345678", "describes 4 bytes of data, it has 8"),
    ({"a": entry("BOOL", [4])}, b"\x00\x01\x02\x00", "is of truth values and holds others"),
    ({"__metadata__": 3}, b"", "is no mapping of texts"),
    ({"__metadata__": {"a": 3}}, b"", "is no mapping of texts"),
    ({"__metadata__": {"instep": "nonsense"}}, b"", "the notes in its header is not valid JSON"),
    ({"__metadata__": {"instep": "{}"}}, b"", "the notes in its header are not dtypes, strides, views"),
    ({"__metadata__": notes(dtypes={"b": "complex64"})}, b"", "dtypes are noted for 'b', which is not in the file"),
    ({"__metadata__": notes(strides={"b": [1]})}, b"", "strides are noted for 'b'"),
    ({"a": entry(), "__metadata__": notes(dtypes={"a": "complex64"})}, b"1234", "is noted as 'complex64', which it cannot be"),
    ({"a": entry(), "__metadata__": notes(dtypes={"a": "float32"})}, b"1234", "is noted as 'float32', which it cannot be"),
    ({"a": entry(), "__metadata__": notes(dtypes={"a": [1]})}, b"1234", "which it cannot be"),
    ({"a": entry(), "__metadata__": notes(strides={"a": [1, 1]})}, b"1234", "is noted with strides that it cannot have"),
    (
        {"a": entry(shape=[2], offsets=[0, 8]), "__metadata__": notes(strides={"a": [2**50]})},
        b"12345678",
        "strides that it cannot have",
    ),
    ({"a": entry(), "__metadata__": notes(views={"a": ["a", [1], [1], 0]})}, b"1234", "the view 'a' is not described by"),
    ({"a": entry(), "__metadata__": notes(views={"b": "a"})}, b"1234", "the view 'b' is not described by"),
    ({"a": entry(), "__metadata__": notes(views={"b": ["c", [1], [1], 0]})}, b"1234", "is of 'c', which is not in the file"),
    ({"a": entry(), "__metadata__": notes(views={"b": ["a", [1], [1], 1]})}, b"1234", "the view 'b' reaches outside of 'a'"),
    ({"a": entry(), "__metadata__": notes(views={"b": ["a", [9], [0], 0]})}, b"1234", "the view 'b' is larger than 'a'"),
    ({"a": entry(), "__metadata__": notes(views={"b": ["a", [1], [1, 1], 0]})}, b"1234", "the view 'b' is larger than 'a'"),
    (
        {"a": entry(), "__metadata__": notes(views={"b": ["a", [1], [1], -1]})},
        b"1234",
        "offset of tensor 'b' are no whole numbers",
    ),
]


@pytest.mark.parametrize(("entries", "data", "words"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_header_that_is_wrong_is_refused_without_taking_memory(entries: Any, data: bytes, words: str) -> None:
    content = b"\x01" if entries == b"" else file_of(entries, data)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=words):
        from_file(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_header_that_claims_more_than_there_is_is_refused() -> None:
    with pytest.raises(CheckpointError, match="ends before its header does"):
        from_file((2**63).to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="its header claims 50,000,000 bytes; at most 16,777,216 are read"):
        read_tensors(io.BytesIO((50_000_000).to_bytes(8, "little")), 100_000_000)


def test_a_file_that_ends_early_is_refused() -> None:
    with pytest.raises(CheckpointError, match="it ends within tensor 'a'"):
        read_tensors(io.BytesIO(file_of({"a": entry()}, b"12")), len(file_of({"a": entry()})) + 4)


def test_an_empty_shape_with_absurd_sizes_gives_no_other_error() -> None:
    content = file_of({"a": entry(shape=[0, 2**61, 2**61], offsets=[0, 0])})
    with pytest.raises(CheckpointError, match="tensor 'a'"):
        from_file(content)
