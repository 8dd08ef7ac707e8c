"""Data in files, read row by row."""

import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from feeds import loader, read
from instep.data.position import Position
from instep.data.sources.files import Stored
from instep.data.sources.recognize import Reading, as_source
from instep.errors import DescriptionError

AT = Position(0, 0, 0)
X = np.arange(24, dtype=np.float32).reshape(8, 3)


def fetch(data: Any, *indices: int, **reading: Any) -> Any:
    return as_source(data, "train", Reading(**reading)).fetch(torch.tensor(indices), AT)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<i8", "u1", "?", "<u2"])
def test_numpys_files(tmp_path: Path, dtype: str, order: Any) -> None:
    array = np.asarray(X.astype(dtype), order=order)
    np.save(tmp_path / "x.npy", array)
    np.save(tmp_path / "y.npy", np.arange(8))
    x, y = fetch((tmp_path / "x.npy", str(tmp_path / "y.npy")), 5, 0)
    assert (x.tolist(), y.tolist()) == (array[[5, 0]].tolist(), [5, 0])
    assert fetch(tmp_path / "x.npy", 5).tolist() == array[[5]].tolist()
    assert fetch(np.load(tmp_path / "x.npy", mmap_mode="r"), 5).tolist() == array[[5]].tolist()
    part = np.load(tmp_path / "x.npy", mmap_mode="r")[2:6]
    assert fetch({"x": part}, 3)["x"].tolist() == array[[5]].tolist()


def test_safetensors_of_every_type(tmp_path: Path) -> None:
    dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64]
    dtypes += [torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
    tensors = {str(dtype): torch.arange(24).view(8, 3).to(dtype) for dtype in dtypes}
    save_file(tensors, tmp_path / "data.safetensors", metadata={"made": "here"})
    batch = fetch(tmp_path / "data.safetensors", 7, 2)
    assert set(batch) == set(tensors)
    for name, tensor in tensors.items():
        assert batch[name].dtype == tensor.dtype
        assert batch[name].float().tolist() == tensor[[7, 2]].float().tolist()


def test_names_of_a_file_and_a_target(tmp_path: Path) -> None:
    save_file({"x": torch.from_numpy(X), "y": torch.arange(8)}, tmp_path / "data.safetensors")
    x, y = fetch(str(tmp_path / "data.safetensors"), 3, target="y")
    assert (x.tolist(), y.tolist()) == ([[9, 10, 11]], [3])


def test_a_file_is_not_loaded_whole(tmp_path: Path) -> None:
    """256 MB on disk, a few hundred rows read."""
    path = tmp_path / "large.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(65_536, 1024))
    array[::1000, 0] = 1
    array.flush()
    del array
    before = resident_bytes()
    made = loader(as_source(path, "train"), batch_size=64)
    for _, batch in zip(range(8), made.batches(0), strict=False):
        assert batch.data.shape == (64, 1024)
    assert resident_bytes() - before < 64 * 2**20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_workers_open_the_file_themselves(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    source = as_source(tmp_path / "x.npy", "train")
    assert not source.in_memory
    sent = pickle.dumps(source)
    assert len(sent) < 1000  # where it lies, not what is in it
    assert pickle.loads(sent).fetch(torch.tensor([5]), AT).tolist() == [X[5].tolist()]
    part: Any = Stored(np.load(tmp_path / "x.npy", mmap_mode="r")[2:])
    assert pickle.loads(pickle.dumps(part)).rows(torch.tensor([0])).tolist() == [X[2].tolist()]
    here = [batch.data.tolist() for batch in read(loader(source))]
    assert [batch.data.tolist() for batch in read(loader(source, workers=2))] == here


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.npy", None, "which does not exist"),
        ("bad.npy", b"hello", r"which is no \.npy file of numbers"),
        ("objects.npy", np.array([{}, []], dtype=object), r"which is no \.npy file of numbers"),
        ("number.npy", np.array(3.0), "a single number; use an array with one entry a sample"),
        ("many.npz", b"", r"which cannot be read row by row; save each array by itself with np\.save"),
        ("text.txt", b"", r"which cannot be read row by row; use \.npy or \.safetensors, or pass a Dataset"),
        ("bad.safetensors", b"hello", "which is no whole safetensors file"),
        ("torn.safetensors", b"\x02\x00\x00\x00\x00\x00\x00\x00[]", "which is no whole safetensors file"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: Any, words: str) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises(DescriptionError, match=f"train is .*{words}"):
        as_source(path, "train")


def test_a_tensor_that_is_cut_off(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(100)}, tmp_path / "x.safetensors")
    data = (tmp_path / "x.safetensors").read_bytes()
    (tmp_path / "x.safetensors").write_bytes(data[:-40])
    with pytest.raises(DescriptionError, match="which is no whole safetensors file"):
        as_source(tmp_path / "x.safetensors", "train")
