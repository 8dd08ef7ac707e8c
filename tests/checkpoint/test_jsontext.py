"""JSON that is made to hurt is refused, quickly and by a CheckpointError."""

import tracemalloc

import pytest

from instep.checkpoint import jsontext
from instep.errors import CheckpointError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "state.json is not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON: 'utf-8' codec"),
        (b"[NaN]", "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"[1e999]", "the number 1e999 is out of range"),
        (b"[" + b"9" * 500 + b"]", "a number has 500 digits"),
        (b"[" + b"9" * 1_000_000 + b"]", "a number has 1,000,000 digits"),
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' occurs twice"),
        (b"[" * 100_000 + b"]" * 100_000, "nests deeper than JSON can be read"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nests deeper than JSON can be read"),
        (b" " * (jsontext.LIMIT_BYTES + 1), "at most 16,777,216 are read"),
    ],
    ids=lambda value: value[:12].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_hostile_text_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        jsontext.parse(text, "state.json")


def test_what_could_not_be_read_back_is_not_written() -> None:
    with pytest.raises(CheckpointError, match=r"state.json would have 16,777,\d+ bytes; .* Keep what is large in tensors"):
        jsontext.render("x" * jsontext.LIMIT_BYTES, "state.json")


@pytest.mark.slow
def test_the_worst_text_takes_bounded_memory() -> None:
    text = b"[" + b"[]," * (jsontext.LIMIT_BYTES // 3 - 2) + b"[]]"
    tracemalloc.start()
    jsontext.parse(text, "state.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 512 * 2**20
