"""TensorBoard: the curves of a run, its settings, pictures of its data and its graph, as event files.

Event files only grow. A run that goes on writes a further one, which begins with a mark that takes back all points from a step on
(`purge_step`). `tensorboard.json` says up to which step the files are written for sure; the rows from there on are written again.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from instep.data.preview.summary import Preview
from instep.errors import DescriptionError
from instep.integrations.packages import require_package
from instep.loop.graph.record import GraphRecord, Node
from instep.run.loggers import WallTimes, numbers_of, settings_of

FOLDER, MARK, EVENTS = "tensorboard", "tensorboard.json", "events.out.tfevents.*"
FLUSH_S = 1.0  # between two times that rows are seen to be on the disk


class TensorBoard:
    """Writes event files to `tensorboard/` of the run folder, or to another folder; `tensorboard --logdir runs` shows them.

    `pictures` are those of `instep.preview`, `graph` is that of `instep.graph`: both are made once, before the first update.

        Trainer(…, folder="runs/a", loggers="tensorboard")
        Trainer(…, loggers=TensorBoard("logs/a", graph=False))
    """

    name = "tensorboard"

    def __init__(self, folder: str | Path | None = None, *, pictures: bool = True, graph: bool = True) -> None:
        self.wants = (*(("preview",) if pictures else ()), *(("graph",) if graph else ()))
        self._given = None if folder is None else Path(folder)
        self._folder = Path()
        self._writer: Any = None
        self._walls: WallTimes
        self._end: Any = None  # the words of the settings' table that say that the run has ended
        self._flushed_s = 0.0

    def require(self, folder: Path | None) -> None:
        require_package('loggers="tensorboard"', "tensorboard", extra="tensorboard")
        if self._given is None and folder is None:
            raise DescriptionError(
                'loggers="tensorboard" writes to the run folder; pass folder= to the Trainer, or TensorBoard("logs/a").'
            )

    def start(self, description: Mapping[str, Any]) -> int:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = self._given or Path(description["folder"]) / FOLDER
        written, resumed = self._written_up_to(), description["step"]
        step = max(1, min(written, resumed)) if written is not None and resumed else 0
        is_new = step == 0  # where the pictures stand
        files = [path.name for path in self._folder.glob(EVENTS)]
        _wait_for_later_name(files)
        self._walls = WallTimes(description)
        self._writer = SummaryWriter(str(self._folder), purge_step=step if files else None, flush_secs=5)
        self._write_settings(description, is_new=is_new)
        if is_new:
            self._write_pictures(description.get("preview"))
            self._write_graph(description.get("graph"), description["title"])
        self._flush(step)
        return step

    def log(self, row: Mapping[str, Any]) -> None:
        wall = self._walls.of(dict(row))
        for name, value in numbers_of(dict(row)).items():
            self._writer.add_scalar(name, value, row["step"], walltime=wall)
        if time.monotonic() - self._flushed_s > FLUSH_S:
            self._flush(row["step"])

    def finish(self, state: str) -> None:
        if state in ("finished", "stopped"):
            self._writer.file_writer.add_summary(self._end)
        self._writer.close()

    # --- How far the files are written

    def _flush(self, step: int) -> None:
        """Rows before `step` are in the files now, and outlive this process."""
        self._writer.flush()
        sizes = {path.name: path.stat().st_size for path in self._folder.glob(EVENTS)}
        beside = self._folder / f"{MARK}.new"
        beside.write_text(json.dumps({"step": step, "sizes": sizes}) + "\n", encoding="utf-8")
        os.replace(beside, self._folder / MARK)  # the old mark or the new one: a torn one would take back the pictures
        self._flushed_s = time.monotonic()

    def _written_up_to(self) -> int | None:
        """The step of the last mark; None where there is none, or the files that it knows of are not there as a whole."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            mark = json.loads((self._folder / MARK).read_bytes())
            if all((self._folder / name).stat().st_size >= size for name, size in mark["sizes"].items()):
                return int(mark["step"])
        return None

    # --- Beside the curves

    def _write_settings(self, description: Mapping[str, Any], *, is_new: bool) -> None:
        """The table of settings (the HPARAMS tab), with the monitored value as its metric."""
        from torch.utils.tensorboard.summary import hparams

        monitor = description["monitor"] or "loss"
        experiment, start, self._end = hparams(settings_of(description), {monitor: 0.0})
        if is_new:
            self._writer.file_writer.add_summary(experiment)
            self._writer.file_writer.add_summary(start)

    def _write_pictures(self, preview: Preview | None) -> None:
        if preview is None or not preview.pictures:
            return
        self._writer.add_images("data/train", np.stack(preview.pictures), 0, dataformats="NHWC")
        said = [preview.shown_as, f"classes: {', '.join(preview.captions)}" if preview.captions else ""]
        self._writer.add_text("data/train", "; ".join(filter(None, said)), 0)

    def _write_graph(self, graph: GraphRecord | None, title: str) -> None:
        if graph is not None:
            self._writer.file_writer.add_onnx_graph(as_graph_def(graph, title))


def _wait_for_later_name(files: list[str]) -> None:
    """Event files are read in the order of their names, which begin with the second in which they were made."""
    for _ in range(20):
        if not any(f".{int(time.time()):010d}." in name for name in files):
            return
        time.sleep(0.06)


def as_graph_def(graph: GraphRecord, title: str) -> Any:
    """The autograd graph as TensorBoard draws graphs: modules are boxes that open."""
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    names = [_name(graph, node, number, title) for number, node in enumerate(graph.nodes)]
    made = []
    for number, node in enumerate(graph.nodes):
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in node.shape])
        attributes = {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=[shape]))}
        inputs = [names[before] for before, after in graph.edges if after == number]
        made.append(NodeDef(name=names[number], op=_operation(node), input=inputs, attr=attributes))
    return GraphDef(node=made)


def _name(graph: GraphRecord, node: Node, number: int, title: str) -> str:
    """Where a node stands: a path of modules, and a last part that no other has. What is outside of the model is the loss's."""
    if node.kind == "parameter":
        path = [title, *node.label.split(".")]
    elif node.call is not None:
        path = [title, *graph.calls[node.call].name.split("."), node.label]
    else:
        path = [node.label]
    words = ["".join(c if c.isalnum() or c in "._-" else "_" for c in part) for part in path if part]
    return f"{'/'.join(words)}.{number}"


def _operation(node: Node) -> str:
    return node.label if node.kind == "operation" else node.kind
