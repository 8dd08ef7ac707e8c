"""A preview as text: what the model will see, set by set and column by column, its pictures, and what to be warned of."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from instep.errors import DescriptionError
from instep.report.picture_grid import for_file, for_terminal
from instep.report.png import png
from instep.text import Paint, bar, clean, coloured, columns, listed, many, plain, wrapped

if TYPE_CHECKING:
    from instep.data.preview.summary import ColumnSummary, Preview, SetSummary

HEAD = ("column", "type", "shape", "least", "most", "mean", "std")
CLASSES, FEATURES = 12, 24  # that are listed one by one
BAR = 16


def render(preview: Preview, *, width: int = 80, colour: bool = False) -> str:
    """The sets, the pictures (in colour where the terminal shows it), the texts, the warnings."""
    paint = coloured if colour else plain
    parts = [_set(each, width, paint) for each in preview.sets]
    if preview.pictures:
        shown = for_terminal(preview.pictures, width=width, colour=colour)
        captions = clean(f"classes {', '.join(preview.captions)}") if preview.captions else ""
        parts.append(
            [*shown, *wrapped(f"{len(preview.pictures)} images of train, {preview.shown_as}", width), *wrapped(captions, width)]
        )
    if preview.texts:
        parts.append(["decoded:", *(f"  {clean(text)[: width - 2]}" for text in preview.texts)])
    parts.append([paint(line, "yellow") for line in _warnings(preview.warnings, width)])
    return "\n\n".join("\n".join(part) for part in parts if part)


def picture_file(preview: Preview) -> bytes | None:
    """The pictures as a PNG file; None where there are none."""
    return png(for_file(preview.pictures)) if preview.pictures else None


def _set(summary: SetSummary, width: int, paint: Paint) -> list[str]:
    total = "an unknown number of" if summary.total is None else f"{summary.total:,}"
    head = f"{clean(summary.name)}: {total} samples, {summary.seen:,} of them looked at, as the model gets them"
    lines = [paint(line, "bold") for line in wrapped(head, width)]
    rows = [_row(column) for column in summary.columns]
    lines += columns(HEAD, rows, left=("column", "type", "shape"), width=width, paint=paint)
    lines += [f"  {line}" for column in summary.columns for line in wrapped(clean(named_features(column)), width - 2)]
    lines += [
        f"  {clean(column.name or 'text')}: {' | '.join(map(clean, column.words))}"[:width]
        for column in summary.columns
        if column.words
    ]
    if summary.padding is not None:
        lines.append(f"padding: {summary.padding:.0%} of a batch")
    return lines + _classes(summary, width)


def _row(column: ColumnSummary) -> tuple[str, ...]:
    numbers = (column.low, column.high, column.mean, column.std)
    shape = " × ".join("?" if size is None else str(size) for size in column.shape) or "one a sample"
    return (
        clean(named_column(column)),
        column.dtype,
        shape,
        *("" if value is None else f"{value:.4g}" for value in numbers),
    )


def named_column(column: ColumnSummary) -> str:
    """Where a column stands in a batch, and what the data calls it."""
    return f"{column.name} {column.called}".strip() or "all"


def named_features(column: ColumnSummary) -> str:
    """What the data calls the numbers of a column; "" where it has no names for them."""
    return f"{column.name} is {listed(column.features, most=FEATURES)}" if column.features else ""


def _classes(summary: SetSummary, width: int) -> list[str]:
    if not summary.classes:
        return []
    total, most = sum(summary.classes.values()), max(summary.classes.values())
    of = "all samples" if summary.all_counted else "the samples looked at"
    least = min(summary.classes.values())
    head = f"classes: {len(summary.classes)} in {of}, from {many(least)} to {many(most)} samples each"
    if len(summary.classes) > CLASSES:
        return wrapped(head, width)
    rows = [
        (clean(summary.names.class_of(label)), f"{count:,}", f"{count / total:.1%}", bar(count / most, BAR))
        for label, count in summary.classes.items()
    ]
    left = ("class", "") if summary.names.classes else ("",)
    return [*wrapped(head, width), *(f"  {line}" for line in columns(("class", "samples", "share", ""), rows, left=left))]


def _warnings(warnings: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for warning in warnings:
        first, *others = wrapped(clean(warning), width - len("warning: "))
        lines += [f"warning: {first}", *(" " * len("warning: ") + other for other in others)]
    return lines


class Run(Protocol):
    """A run whose data can be looked at."""

    def look(
        self,
        *,
        decode: Callable[[Any], str] | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> Preview: ...


class HasRun(Protocol):
    """A Trainer."""

    @property
    def run(self) -> Run: ...


class Previewed:
    """What was seen: print it, show it in a notebook, or save its images."""

    def __init__(self, seen: Preview) -> None:
        self.seen = seen

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong at first sight."""
        return tuple(self.seen.warnings)

    def text(self, *, width: int = 80, colour: bool = False) -> str:
        return render(self.seen, width=width, colour=colour)

    def save(self, path: str | Path) -> Path:
        """Write the images as a PNG file."""
        content = picture_file(self.seen)
        if content is None:
            raise DescriptionError("there are no images in this data, so there is no picture to save.")
        path = Path(path)
        path.write_bytes(content)
        return path

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        content = picture_file(self.seen)
        picture = f'<img src="data:image/png;base64,{base64.b64encode(content).decode()}">' if content is not None else ""
        return f"{picture}<pre>{html.escape(self.text())}</pre>"


def preview(
    trainer: HasRun,
    *,
    decode: Callable[[Any], str] | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Previewed:
    """The first batches of every data set of a run, after all transforms: shapes, ranges, classes, images, and warnings.

    `decode` makes text of a sample's tokens; `mean` and `std` undo a normalisation. The run stays as it is.

    >>> import torch
    >>> from instep import Trainer
    >>> model, x = torch.nn.Linear(4, 1), torch.arange(40.0).reshape(10, 4)
    >>> trainer = Trainer(
    ...     model,
    ...     loss=torch.nn.functional.mse_loss,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     train=(x, x[:, :1] / 40),
    ...     epochs=1,
    ... )
    >>> preview(trainer).warnings
    ('train[0] is not normalised: mean 19.5, std 11.5; models expect values near 1',)
    """
    return Previewed(trainer.run.look(decode=decode, mean=mean, std=std))
