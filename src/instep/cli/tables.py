"""Tables of new rows for a run that was trained on a frame: .csv and .parquet files, read by pandas where it is installed."""

import csv
import importlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instep.cli.border import WrongUse
from instep.data.sources.frame import FrameLayout, columns_of
from instep.errors import DescriptionError
from instep.run.run_files import section

ENDINGS = (".csv", ".parquet")


def is_table(path: Path) -> bool:
    return path.suffix in ENDINGS


def read(path: Path) -> Any:
    """The frame in a file."""
    if not path.is_file():
        raise WrongUse(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; name a file of rows.")
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise WrongUse(f"{path} is read by pandas, which is not installed: pip install pandas") from None
    try:
        return pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)
    except ImportError:
        raise WrongUse(f"{path} is read by pandas with pyarrow, which is not installed: pip install pyarrow") from None
    except Exception as error:  # pandas has many of its own
        raise WrongUse(f"{path} cannot be read: {next(iter(str(error).splitlines()), type(error).__name__)}") from None


def inputs_of(frame: Any, description: Mapping[str, Any], path: Path, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The rows as the model of a run takes them: the columns that it was trained on, by the names that the run kept."""
    return _columns(frame, _kept_layout(description, path), path, dtype, target_needed=False)


def samples_of(
    frame: Any, description: Mapping[str, Any], path: Path, dtype: torch.dtype, target: str | Sequence[str] | None
) -> tuple[Tensor, Tensor]:
    """The rows with their target, its classes by the names that the run kept; `target` as the training data has it now."""
    layout = _kept_layout(description, path, target)
    texts = {name: _texts(frame, path, name) for name in layout.classes if name in frame.columns}
    return _columns(frame.assign(**texts) if texts else frame, layout, path, dtype, target_needed=True)


def _kept_layout(description: Mapping[str, Any], path: Path, target: str | Sequence[str] | None = None) -> FrameLayout:
    kept = section(section(description, "data"), "train")
    if not kept.get("names"):
        raise WrongUse(f"{path} has columns by name, and the run was trained on data without such names; use .npz.")
    # Beside its frame a target has no name in the settings.
    named = section(section(description, "settings"), "train").get("target") or target or "target"
    classes = {name: tuple(map(str, values)) for name, values in section(kept, "classes").items()}
    has_whole = str((kept.get("columns") or [""])[-1]).startswith(("torch.int", "torch.uint", "torch.bool"))
    targets = [named] if isinstance(named, str) else list(named)
    return FrameLayout(tuple(kept["names"]), named, classes, frozenset(targets if has_whole else ()))


def _texts(frame: Any, path: Path, name: str) -> list[str]:
    """A column of class names as it is written: pandas takes 0 for a number, True for a truth value and NA for a gap."""
    if path.suffix != ".csv":
        return [str(value) for value in frame[name]]
    pandas = importlib.import_module("pandas")
    return list(pandas.read_csv(path, usecols=[name], dtype=str, keep_default_na=False)[name])


def _columns(frame: Any, layout: FrameLayout, path: Path, dtype: torch.dtype, *, target_needed: bool) -> tuple[Tensor, Tensor]:
    if not len(frame):
        raise WrongUse(f"{path} has no rows.")
    say_row = partial(_say_line, path, len(frame))
    try:
        return columns_of(frame, layout, str(path), dtype=dtype, target_needed=target_needed, say_row=say_row)
    except DescriptionError as error:
        raise WrongUse(str(error)) from None


def _say_line(path: Path, rows: int, row: int) -> str:
    """Where a row of the frame stands in the file: by its line, as editors count them; of a binary file by its number from 1."""
    lines = _lines(path) if path.suffix == ".csv" else []
    return f"line {lines[row + 1]}" if len(lines) == rows + 1 else f"row {row + 1}"


def _lines(path: Path) -> list[int]:
    """The line at which each record begins, the head first: quoted texts may have several lines, and pandas skips empty ones."""
    found, begin = [], 1
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.reader(file)
        for record in reader:
            if record and (len(record) > 1 or record[0].strip()):
                found.append(begin)
            begin = reader.line_num + 1
    return found
