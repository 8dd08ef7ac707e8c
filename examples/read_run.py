"""Reads a run folder without Instep and without PyTorch: NumPy and the standard library are enough.

docs/reference/format.md specifies what is read here. Every checksum is verified, and nothing that is read is executed.

    python examples/read_run.py runs/digits
"""

import base64
import json
import math
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8"}
NUMPY |= {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1"}  # no bfloat16 in NumPy
COMPLEX = {"complex64": "<c8", "complex128": "<c16"}


def read_tensors(content: bytes) -> tuple[dict[str, Any], dict[str, int]]:
    """The arrays of a safetensors file by name; and of a shard, the row of the whole tensor that each begins with."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    notes = json.loads(metadata.get("instep", '{"dtypes": {}, "strides": {}, "views": {}}'))
    memory, arrays = {}, {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        rows = np.frombuffer(content[begin:end], NUMPY[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            rows = (rows.astype("<u4") << 16).view("<f4")
        if notes["dtypes"].get(name) in COMPLEX:  # stored as pairs of real numbers
            rows = np.ascontiguousarray(rows).view(COMPLEX[notes["dtypes"][name]])[..., 0]
        memory[name] = np.empty(rows.size, rows.dtype)
        arrays[name] = look_at(memory[name], rows.shape, notes["strides"].get(name))
        arrays[name][...] = rows
    for name, (of, shape, strides, offset) in notes["views"].items():  # tied tensors are stored once
        arrays[name] = look_at(memory[of][offset:], shape, strides)
    offsets = json.loads(metadata.get("DCP_SHARDING_INFO", "{}"))
    return arrays, {name: note["saved_offsets"][0] if note["saved_offsets"] else 0 for name, note in offsets.items()}


def look_at(memory: Any, shape: Any, strides: Any) -> Any:
    """Memory as an array; strides count elements, and where none are given the array lies row by row."""
    if strides is None:
        return memory.reshape(shape)
    return np.lib.stride_tricks.as_strided(memory, shape, [stride * memory.itemsize for stride in strides])


def untag(value: Any, arrays: dict[str, Any]) -> Any:
    """The value of tagged JSON: an object with one key that begins with "$" stands for what JSON has no word for."""
    if isinstance(value, list):
        return [untag(item, arrays) for item in value]
    if not isinstance(value, dict) or not value:
        return value
    tag, content = next(iter(value.items()))
    if not tag.startswith("$"):
        return {key: untag(item, arrays) for key, item in value.items()}
    if tag in ("$tensor", "$array"):
        return arrays[content]
    if tag in ("$float", "$dtype", "$device"):
        return float(content) if tag == "$float" else content
    if tag == "$int":
        return int(content, 16)
    if tag in ("$bytes", "$numpy"):
        found = base64.b64decode(content if tag == "$bytes" else content[1])
        return found if tag == "$bytes" else np.frombuffer(found, content[0])[0]
    if tag in ("$dict", "$ordered", "$counter", "$state_dict", "$defaultdict"):
        pairs = {"$state_dict": 0, "$defaultdict": 1}.get(tag)
        return {untag(key, arrays): untag(item, arrays) for key, item in (content if pairs is None else content[pairs])}
    items = untag(content[1] if tag == "$deque" else content, arrays)
    if tag == "$complex":
        return complex(*items)
    kinds = {"$tuple": tuple, "$size": tuple, "$generator": tuple, "$set": set, "$frozenset": frozenset, "$deque": list}
    return kinds[tag](items)  # an unknown tag is an error


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """The step, the best step, the state, and the parts (model, optimizer, …) of a checkpoint."""
    text = (folder / "MANIFEST.json").read_bytes()
    manifest = json.loads(text)
    own = re.sub(rb',"crc32":"[0-9a-f]{8}"}\n$', b"}", text)
    require(manifest["format"] == "instep checkpoint" and manifest["version"] == 1, f"{folder} has another format")
    require(zlib.crc32(own) == int(manifest["crc32"], 16), "MANIFEST.json is damaged")
    arrays: dict[str, dict[str, Any]] = {}
    rows: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    for name, said in manifest["files"].items():
        content = (folder / name).read_bytes()
        require(len(content) == said["bytes"] and zlib.crc32(content) == int(said["crc32"], 16), f"{name} is damaged")
        if name.startswith("shard-"):  # the rows of one process: put together below
            found, first_rows = read_tensors(content)
            for key, array in found.items():
                part, _, tensor = key.partition("/")
                rows.setdefault((part, tensor), []).append((first_rows[key], array))
        elif name.endswith(".safetensors"):
            arrays[name.removesuffix(".safetensors")] = read_tensors(content)[0]
    for (part, tensor), pieces in rows.items():
        pieces.sort(key=lambda piece: (piece[0], len(piece[1]) if piece[1].ndim else 0))
        whole = np.concatenate([array for _, array in pieces]) if pieces[0][1].ndim else pieces[0][1]
        arrays.setdefault(part, {})[tensor] = whole
    content = json.loads((folder / "state.json").read_bytes())
    parts = {name: untag(part, arrays.get(name, {})) for name, part in content["parts"].items()}
    state = untag(content["state"], arrays.get("state", {}))
    return {"step": manifest["step"], "best": manifest["best"], "state": state, "parts": parts}


def require(is_true: bool, otherwise: str) -> None:
    if not is_true:
        raise ValueError(otherwise)


def read_history(path: Path) -> list[dict[str, Any]]:
    """The rows of history.jsonl up to a torn or damaged line."""
    rows = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        checked = re.fullmatch(rb'(.*)"crc": "([0-9a-f]{8})"}}', line)
        if checked and zlib.crc32(checked[1]) != int(checked[2], 16):
            break
        rows.append(untag(json.loads(line), {}))
    return rows


def newest(run: Path) -> Path:
    """The last checkpoint of a run."""
    return max((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))


if __name__ == "__main__":
    run = Path(sys.argv[1])
    description, history = json.loads((run / "run.json").read_bytes()), read_history(run / "history.jsonl")
    checkpoint = read_checkpoint(newest(run))
    status = description["status"]
    print(f"{description['title']}, {status['state']} at step {status['step']}, {len(history)} rows")
    for name, array in checkpoint["parts"]["model"].items():
        norm = math.sqrt((np.abs(array).astype("f8") ** 2).sum())
        print(f"{name:<32} {array.dtype!s:<10} {'×'.join(map(str, array.shape)):<16} norm {norm:.4g}")
