"""JSON as text, read with suspicion: what a damaged or hostile file may do to a parser is refused here.

Owns the limits of size, of nesting and of numbers. What the JSON means is for those who asked for it.
"""

import json
import math
from typing import Any

from instep.errors import CheckpointError

# A parsed "[]," takes 20 times its text. So this much text is a third of a gigabyte at the very worst, and room for the names of
# some hundred thousand tensors.
LIMIT_BYTES = 16 * 2**20
LIMIT_DIGITS = 400
LIMIT_DEPTH = 100


def parse(text: bytes, what: str) -> Any:
    """The value of a JSON text; duplicate keys, NaN, infinities and endless numbers are refused."""
    if len(text) > LIMIT_BYTES:
        raise CheckpointError(f"{what} has {len(text):,} bytes; at most {LIMIT_BYTES:,} are read")
    try:
        return json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_int=_int,
            parse_float=_float,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise CheckpointError(f"{what} nests deeper than JSON can be read") from None
    except (ValueError, CheckpointError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise CheckpointError(f"{what} is not valid JSON: {error}") from None


def render(value: Any, what: str) -> bytes:
    """The JSON text of plain values, the same bytes for the same value; refused where `parse` would not take it back."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(text) > LIMIT_BYTES:
        raise CheckpointError(
            f"{what} would have {len(text):,} bytes; at most {LIMIT_BYTES:,} are read back. Keep what is large in tensors."
        )
    return text


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise CheckpointError(f"the key {twice[:80]!r} occurs twice")
    return found


def _int(digits: str) -> int:
    if len(digits) > LIMIT_DIGITS:
        raise CheckpointError(f"a number has {len(digits):,} digits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise CheckpointError(f"the number {digits[:80]} is out of range")
    return value


def _refuse_constant(name: str) -> Any:
    raise CheckpointError(f"{name} is not JSON")
