"""An encoded checkpoint: planned, refused where it must be, encoded; all that is left is to write bytes.

Between a run that goes on and a writer beside it: what a run may still change is either encoded here or copied by `Copies`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from instep.checkpoint import header, jsontext
from instep.checkpoint.layout import Layout, plan_layout
from instep.checkpoint.record import Checkpoint
from instep.checkpoint.tagged import Decoder, Encoder
from instep.errors import CheckpointError
from instep.records import record_class

STATE = "state"
LIMIT_STEP = 10**15
_PART = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# Names that Windows keeps for devices, with any ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{device}{number}" for device in ("com", "lpt") for number in range(10))}


@record_class
class EncodedPart:
    """One tensor file to be."""

    layout: Layout
    tensors: Mapping[str, Tensor]
    head: bytes


@record_class
class EncodedCheckpoint:
    """A checkpoint as files to be."""

    step: int
    best: int | None
    parts: Mapping[str, EncodedPart]
    state: bytes
    kept: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        return len(self.state) + sum(len(part.head) + part.layout.size_bytes for part in self.parts.values())


def encode_checkpoint(checkpoint: Checkpoint) -> EncodedCheckpoint:
    """Plan the files; raises CheckpointError with the name of what cannot be kept. Tensors are not copied."""
    for what, step in (("step", checkpoint.step), ("best", checkpoint.best)):
        if step is not None and (type(step) is not int or not 0 <= step < LIMIT_STEP):
            raise CheckpointError(f"{what}={step!r} of a checkpoint is not a whole number from 0 on.")
    encoded: dict[str, Any] = {}
    parts: dict[str, EncodedPart] = {}
    for name, value in checkpoint.parts.items():
        require_part_name(name)
        encoded[name], parts[name] = _encode_part(name, value)
    encoded_state, state_part = _encode_part(STATE, dict(checkpoint.state))
    if state_part.tensors:
        parts[STATE] = state_part
    state = jsontext.render({"state": encoded_state, "parts": encoded}, "state.json")
    return EncodedCheckpoint(checkpoint.step, checkpoint.best, parts, state, checkpoint.kept, checkpoint.dropped)


def check(checkpoint: Checkpoint) -> int:
    """Refuse by name what cannot be kept, before training starts; says how many bytes a checkpoint takes. Writes nothing."""
    return encode_checkpoint(checkpoint).size_bytes


def _encode_part(name: str, value: Any) -> tuple[Any, EncodedPart]:
    encoder = Encoder(name)
    encoded = encoder.encode(value)
    layout = plan_layout(encoder.tensors, name)
    return encoded, EncodedPart(layout, encoder.tensors, header.render(layout, name))


def decode_checkpoint(
    step: int, best: int | None, state: bytes, tensors: Mapping[str, Mapping[str, Tensor]], wanted: Collection[str] | None
) -> Checkpoint:
    """The checkpoint back from what its files hold; only the wanted parts, where they are said."""
    content = jsontext.parse(state, "state.json")
    if not isinstance(content, dict) or set(content) != {"state", "parts"} or not isinstance(content["parts"], dict):
        raise CheckpointError("state.json does not hold a state and its parts")
    parts = {
        name: Decoder(tensors.get(name, {})).decode(value)
        for name, value in content["parts"].items()
        if wanted is None or name in wanted
    }
    decoded = Decoder(tensors.get(STATE, {})).decode(content["state"])
    if not isinstance(decoded, dict):
        raise CheckpointError("the state in state.json is no dictionary")
    return Checkpoint(step, parts, decoded, best)


def require_part_name(name: str) -> None:
    """Part names become file names, on every system."""
    if not _PART.fullmatch(name) or name in _DEVICES or name == STATE:
        raise CheckpointError(
            f"{name[:80]!r} cannot be a part of a checkpoint; use a short name of small letters, digits, _ and -, "
            f"which is not {STATE!r} and not a device of Windows."
        )
