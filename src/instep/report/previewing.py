"""Previewing: the data of a run as its model will really see it, for people."""

import base64
import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instep.data.preview.summary import Preview
from instep.errors import DescriptionError
from instep.report.preview import picture_file, render
from instep.trainer import Trainer


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
    trainer: Trainer,
    *,
    decode: Callable[[Any], str] | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
) -> Previewed:
    """The first batches of every data set of a run, after all transforms: shapes, ranges, classes, images, and warnings.

    `decode` makes text of a sample's tokens; `mean` and `std` undo a normalisation. Leaves no trace in the run.
    """
    return Previewed(trainer.look(decode=decode, mean=mean, std=std))
