"""Samples: what a run that was built again shows of its data, and of what its model makes of it."""

import base64
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from instep.data.preview.pictures import as_pictures, images_in
from instep.data.preview.summary import ColumnSummary, Preview, SetSummary, leaves
from instep.data.sources.data_names import DataNames
from instep.records import Evaluation, SampleLoss
from instep.report.picture_grid import resized
from instep.report.png import png
from instep.report.preview import named_column, named_features
from instep.text import cut, many, number

COUNT, MOST = 24, 2_000  # samples that are shown, of how many that go through the model
LONGEST_SIDE = 160  # pixels of a picture
NUMBERS, TEXT = 6, 300  # how much of a sample is shown


class Run(Protocol):
    """A run that has its weights."""

    def look(self) -> Preview: ...
    def evaluate(self, data: Any = None, weights: Any = None, *, report: bool = False) -> Evaluation: ...
    def largest_losses(self, count: int, most: int, weights: Any = None) -> list[SampleLoss]: ...
    @property
    def valid_loaders(self) -> Any: ...


def samples_of(run: Run, weights: str) -> dict[str, Any]:
    """The data as the model gets it; and, where there is validation data, the worst samples and confusion matrices."""
    seen = run.look()
    found: dict[str, Any] = {"preview": _preview(seen)}
    if run.valid_loaders:
        found["tables"] = dict(run.evaluate(None, weights, report=True).tables)
        found["samples"] = _worst(run.largest_losses(COUNT, MOST, weights), seen)
    return found


def _preview(seen: Preview) -> dict[str, Any]:
    captions = [*seen.captions, *[""] * (len(seen.pictures) - len(seen.captions))]
    return {
        "sets": [_set(each) for each in seen.sets],
        "warnings": list(seen.warnings),
        "pictures": [{"png": _data_url(one), "caption": said} for one, said in zip(seen.pictures, captions, strict=True)],
        "shown_as": f"{len(seen.pictures)} images of train, {seen.shown_as}" if seen.pictures else "",
        "texts": list(seen.texts),
    }


def _set(seen: SetSummary) -> dict[str, Any]:
    total = "an unknown number of" if seen.total is None else f"{seen.total:,}"
    classes = seen.classes or {}
    counted = sum(classes.values())
    return {
        "name": seen.name,
        "said": f"{total} samples, {seen.seen:,} of them looked at, as the model gets them",
        "columns": [_column(column) for column in seen.columns],
        "features": [named_features(column) for column in seen.columns if column.features],
        "classes": [[seen.names.class_of(label), f"{many(count)}", f"{count / counted:.1%}"] for label, count in classes.items()],
    }


def _column(column: ColumnSummary) -> list[str]:
    numbers = (column.low, column.high, column.mean, column.std)
    shape = " × ".join("?" if size is None else str(size) for size in column.shape) or "one a sample"
    texts = ["" if value is None else f"{value:.4g}" for value in numbers]
    return [
        named_column(column),
        column.dtype,
        shape,
        *(texts if not column.words else [cut(" | ".join(column.words)), "", "", ""]),
    ]


def _worst(samples: Sequence[SampleLoss], seen: Preview) -> list[dict[str, Any]]:
    names = seen.sets[0].names if seen.sets else DataNames()
    features = next((column.features for each in seen.sets for column in each.columns if column.features), ())
    about = (
        f"The {len(samples)} samples of the validation data with the largest losses, each alone; of the first {MOST:,} of a set."
    )
    return [
        {
            "name": f"sample {one.index:,} of {one.source}",
            "loss": one.loss if np.isfinite(one.loss) else str(one.loss),
            "said": _said(one, names),
            "about": about,
            **_shown(one, features),
        }
        for one in samples
    ]


def _said(one: SampleLoss, names: DataNames) -> list[str]:
    """What it should be and what the model gave: the classes where it chose among some, else the first numbers."""
    output, target = one.output, one.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor):
        return []
    is_class = not target.is_floating_point() and target.numel() == 1 and output.ndim == 2 and output.shape[1] > 1
    if is_class:
        return [f"is {names.class_of(int(target))}, taken for {names.class_of(int(output.argmax(1)))}"]
    return [f"is {_first(target)}", f"gave {_first(output)}"]


def _shown(one: SampleLoss, features: Sequence[str]) -> dict[str, Any]:
    """The sample as a picture, as text, or as its first numbers."""
    named = leaves(one.data)
    images = images_in(named)
    if images is not None:
        return {"png": _data_url(as_pictures(images, None)[0][0])}
    texts = [str(column[0]) for _, column in named if isinstance(column, list | tuple) and column]
    if texts:
        return {"text": cut(texts[0], TEXT)}
    tensors = [column for _, column in named if isinstance(column, Tensor)]
    return {"text": _first(tensors[0], features) if tensors else ""}


def _first(values: Tensor, names: Sequence[str] = ()) -> str:
    """The first numbers, each with its name where all have one."""
    flat = values.detach().cpu().reshape(-1)
    shown = [number(value) if flat.is_floating_point() else str(value) for value in flat[:NUMBERS].tolist()]
    if len(names) == len(flat):
        shown = [f"{name} {value}" for name, value in zip(names, shown, strict=False)]
    return ", ".join(shown) + (", …" if len(flat) > NUMBERS else "")


def _data_url(picture: Any) -> str:
    share = min(1.0, LONGEST_SIDE / max(picture.shape[:2]))
    small = resized(picture, *(max(1, round(side * share)) for side in picture.shape[:2]))
    return f"data:image/png;base64,{base64.b64encode(png(small)).decode()}"
