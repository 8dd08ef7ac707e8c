"""Weights & Biases: the curves and settings of a run, online or offline.

W&B appends. Which points a run has is read from the files that it keeps on this machine, of an online run too.
"""

import json
import os
import secrets
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from instep.integrations.kept_run import KeptRun, Points, new_numbers
from instep.integrations.packages import require_package
from instep.run.loggers import settings_of

EXIT_CODES = {"finished": 0, "stopped": 0, "interrupted": 130, "failed": 1}
BLOCK_BYTES = 32_768  # of a .wandb file
HEAD_BYTES, HEAD = 7, struct.Struct("<IHB")  # of a record: its checksum, length and kind
WHOLE, LAST = 1, 4  # kinds: a record, the last part of one


class WandB:
    """Logs to a run of W&B, with its files in `wandb/` of the run folder; `mode="offline"` (WANDB_MODE) needs no network.

    The run keeps its id in `wandb.json` of the run folder, and goes on under it. `wandb sync` uploads what was logged offline.

        Trainer(…, loggers="wandb")
        Trainer(…, loggers=WandB("digits", mode="offline"))
    """

    name = "wandb"

    def __init__(
        self,
        project: str | None = None,
        *,
        run_name: str | None = None,
        entity: str | None = None,
        group: str | None = None,
        tags: tuple[str, ...] = (),
        mode: Literal["online", "offline", "disabled"] | None = None,
    ) -> None:
        self._project = project
        self._run_name = run_name
        self._entity = entity
        self._group = group
        self._tags = tags
        self._mode = mode
        self._kept = KeptRun("wandb.json")
        self._run: Any = None
        self._points: Points = {}

    def require(self, folder: Path | None) -> None:
        require_package('loggers="wandb"', "wandb", extra="wandb")

    def start(self, description: Mapping[str, Any]) -> int:
        import wandb

        folder = Path(description["folder"] or os.environ.get("WANDB_DIR", "."))
        run_id = self._kept.find(description)
        self._points = {} if run_id is None else read_points(folder / "wandb", run_id)
        if run_id is None or not self._kept.fits(self._points, description):
            run_id, self._points = secrets.token_hex(4), {}
        self._kept.keep(run_id, description)
        self._run = wandb.init(
            project=self._project,
            entity=self._entity,
            group=self._group,
            tags=self._tags or None,
            name=self._run_name or description["name"],
            id=run_id,
            resume="allow",
            reinit="create_new",  # a run of the user's own stays as it is
            dir=str(folder),
            config=settings_of(description),
            mode=self._mode,
            settings=wandb.Settings(console="off", silent=True),
        )
        return 0

    def log(self, row: Mapping[str, Any]) -> None:
        if numbers := new_numbers(dict(row), self._points):
            self._run.log(numbers, step=row["step"])

    def finish(self, state: str) -> None:
        self._run.finish(exit_code=EXIT_CODES[state])


def read_points(folder: Path, run_id: str) -> Points:
    """The points of a run, from all files that W&B has of it.

    Each start has a folder of its own, by the second; a second one in the same second ends in -1.
    """
    points: Points = {}
    for path in sorted(folder.glob(f"*run-*-{run_id}*/run-{run_id}.wandb")):
        for numbers in read_history(path):
            for name in numbers:
                points.setdefault(name, set()).add(int(numbers["_step"]))
    return points


def read_history(path: Path) -> Iterator[dict[str, Any]]:
    """The rows that a .wandb file holds, up to the first that was not written whole."""
    from wandb.proto.wandb_internal_pb2 import Record

    for data in _records(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            yield {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}


def _records(content: bytes) -> Iterator[bytes]:
    """The records of a file in the format of LevelDB's log: in blocks, which long ones cross in parts."""
    place, parts = HEAD_BYTES, b""  # after the head of the file
    while place + HEAD_BYTES <= len(content):
        rest = BLOCK_BYTES - place % BLOCK_BYTES
        if rest < HEAD_BYTES:
            place += rest
            continue
        _, length, kind = HEAD.unpack_from(content, place)
        place += HEAD_BYTES
        if kind == 0 or place + length > len(content):
            return
        parts += content[place : place + length]
        place += length
        if kind in (WHOLE, LAST):
            yield parts
            parts = b""
