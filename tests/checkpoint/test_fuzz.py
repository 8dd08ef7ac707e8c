"""The reader is fuzzed: whatever the bytes are, a checkpoint or a CheckpointError comes out."""

import contextlib
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint.made import realistic
from instep.checkpoint import jsontext
from instep.checkpoint.encoded import decode_checkpoint, encode_checkpoint
from instep.checkpoint.tensorfile import chunks_of, read_tensors
from instep.errors import CheckpointError

SEALED = encode_checkpoint(realistic())
FILES = {name: b"".join(chunks_of(part.layout, part.tensors, part.head)) for name, part in SEALED.parts.items()}
NASTY: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, -(2**70), 1.5, 1e308, "", "..", "/", "$tuple", "F32", "weight", [], {}, [[]],
    [0, 0], {"$tensor": "0.weight"}, {"$dict": [[[], 1]]}, {"$deque": [2**70, []]}, {"$numpy": ["float32", "AAAA"]},
    {"$float": "nan"}, {"$tuple": [[1], {"$set": [{"$tuple": [1]}]}]}, {"$device": "cuda:99999999999"}, {"$bytes": "===="},
    {"dtype": "F32"}, {"$dtype": "bit"}, {"$size": [-1]}, {"$state_dict": [[], []]},
]  # fmt: skip


def read_all(files: dict[str, bytes], state: bytes) -> None:
    """What `read` does with the bytes of files whose checksums fit."""
    with contextlib.suppress(CheckpointError):
        tensors = {name: read_tensors(io.BytesIO(content), len(content))[0] for name, content in files.items()}
        decode_checkpoint(1, None, state, tensors, None)


def mutated(content: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(damaged) + 1)
        match chance.randrange(5):
            case 0:
                damaged[place : place + 1] = chance.randbytes(1)
            case 1:
                del damaged[place : place + chance.randint(1, 40)]
            case 2:
                damaged[place:place] = chance.choice([b"[", b"}", b'"', b"9" * 30, b"\x00", b"-", b"e9", b"null", b"$"])
            case 3:
                damaged[place:place] = damaged[: chance.randint(1, 60)]
            case _:
                damaged[:8] = chance.choice([0, 1, len(damaged) - 8, len(damaged), 2**32, 2**63, 2**64 - 1]).to_bytes(8, "little")
    return bytes(damaged)


def with_a_nasty_place(value: Any, chance: random.Random) -> Any:
    """The same JSON with one place in it changed."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        changed = dict(value)
        if chance.random() < 0.1:
            changed[chance.choice(["$tuple", "x", "", "$counter"])] = changed.pop(key)
        else:
            changed[key] = with_a_nasty_place(value[key], chance)
        return changed
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], with_a_nasty_place(value[place], chance), *value[place + 1 :]]
    return chance.choice(NASTY)


def fuzz_bytes(seed: int) -> None:
    chance = random.Random(seed)
    files = {name: mutated(content, chance) if chance.random() < 0.7 else content for name, content in FILES.items()}
    read_all(files, mutated(SEALED.state, chance) if chance.random() < 0.5 else SEALED.state)


def fuzz_state(seed: int) -> None:
    state = json.loads(SEALED.state)
    read_all(FILES, jsontext.render(with_a_nasty_place(state, random.Random(seed)), ""))


def fuzz_header(seed: int) -> None:
    chance = random.Random(seed)
    content = FILES["optimizer"]
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    if chance.random() < 0.5:
        notes = with_a_nasty_place(json.loads(entries["__metadata__"]["instep"]), chance)
        entries["__metadata__"]["instep"] = json.dumps(notes)
    else:
        entries = with_a_nasty_place(entries, chance)
    text = json.dumps(entries).encode()
    read_all(FILES | {"optimizer": len(text).to_bytes(8, "little") + text + content[8 + length :]}, SEALED.state)


def test_the_fuzzers_begin_with_what_can_be_read() -> None:
    tensors = {name: read_tensors(io.BytesIO(content), len(content))[0] for name, content in FILES.items()}
    assert set(decode_checkpoint(1, None, SEALED.state, tensors, None).parts) == {"model", "optimizer"}


WAYS = [fuzz_bytes, fuzz_state, fuzz_header]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nothing_but_a_checkpoint_error_comes_out(way: Callable[[int], None]) -> None:
    for seed in range(500):
        way(seed)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nothing_but_a_checkpoint_error_comes_out_of_many(way: Callable[[int], None]) -> None:
    for seed in range(20_000):
        way(seed)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_at_all_are_refused(file: bytes, state: bytes) -> None:
    read_all({"model": file}, state)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["$tuple", "$dict", "$set", "$deque", "$tensor", "a"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(json_values)
def test_any_json_as_state_is_read_or_refused(value: Any) -> None:
    read_all({}, jsontext.render({"state": {"x": value}, "parts": {}}, ""))
