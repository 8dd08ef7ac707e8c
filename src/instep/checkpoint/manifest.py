"""The manifest of a checkpoint: which files it has, how large they are, and their checksums.

It is written last. What it says is checked against the folder it lies in and against every byte of the files it names, so that a
checkpoint is the one that was written or it is none.
"""

import re
import zlib
from collections.abc import Mapping
from typing import Any, TypeGuard

from instep.checkpoint import jsontext
from instep.checkpoint.blocks import FileSummary
from instep.checkpoint.encoded import LIMIT_STEP
from instep.errors import CheckpointError
from instep.records import record_class

MANIFEST, STATE_FILE, ENDING = "MANIFEST.json", "state.json", ".safetensors"
LIMIT_BYTES = 2**20
FORMAT, VERSION = "instep checkpoint", 1
_FILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(\.safetensors|\.json)")


@record_class
class Manifest:
    step: int
    best: int | None
    files: Mapping[str, FileSummary]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files.values())

    def render(self) -> bytes:
        files = {name: {"bytes": file.size_bytes, "crc32": f"{file.crc32:08x}"} for name, file in sorted(self.files.items())}
        content = {"format": FORMAT, "version": VERSION, "step": self.step, "best": self.best, "files": files}
        own = zlib.crc32(jsontext.render(content, MANIFEST))
        return jsontext.render(content | {"crc32": f"{own:08x}"}, MANIFEST) + b"\n"


def parse(text: bytes) -> Manifest:
    """The manifest in these bytes, which must be the very bytes that it would be written as."""
    content = jsontext.parse(text, MANIFEST)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{MANIFEST} is not that of an Instep checkpoint")
    if content.get("version") != VERSION:
        raise CheckpointError(f"it has version {str(content.get('version'))[:20]} of the format, and this Instep reads {VERSION}")
    files = content.get("files")
    if not isinstance(files, dict):
        raise CheckpointError(f"{MANIFEST} names no files")
    step, best = content.get("step"), content.get("best")
    if not _is_step(step) or not (best is None or _is_step(best)):
        raise CheckpointError(f"{MANIFEST} gives no valid step")
    manifest = Manifest(step, best, {name: _parse_file(name, entry) for name, entry in files.items()})
    if STATE_FILE not in manifest.files:
        raise CheckpointError(f"{MANIFEST} does not name {STATE_FILE}")
    if manifest.render() != text:
        raise CheckpointError(f"{MANIFEST} is not as it was written")
    return manifest


def _is_step(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < LIMIT_STEP


def _parse_file(name: str, entry: Any) -> FileSummary:
    if not _FILE.fullmatch(name):
        raise CheckpointError(f"{MANIFEST} names {name[:80]!r}, which is no file of a checkpoint")
    size, checksum = (entry.get("bytes"), entry.get("crc32")) if isinstance(entry, dict) else (None, None)
    if (
        type(size) is not int
        or not 0 <= size < 2**62
        or not isinstance(checksum, str)
        or not re.fullmatch("[0-9a-f]{8}", checksum)
    ):
        raise CheckpointError(f"{MANIFEST} gives no valid size and checksum of {name}")
    return FileSummary(size, int(checksum, 16))
