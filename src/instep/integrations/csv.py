"""CSV: the numbers of a run as a table, for a spreadsheet or `pandas.read_csv`. Needs no package."""

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from instep.errors import DescriptionError
from instep.run.loggers import numbers_of

FILE = "metrics.csv"


class CSV:
    """One line a row of the history, one column a number, in `metrics.csv` of the run folder, or in a file of your choice.

    The file is written anew when a run starts or goes on, so that it has what the history has.

        Trainer(…, loggers="csv")
        Trainer(…, loggers=CSV("table.csv"))
    """

    name = "csv"

    def __init__(self, path: str | Path | None = None) -> None:
        self._given = None if path is None else Path(path)
        self._file: IO[str] | None = None
        self._columns: list[str] = []

    def require(self, folder: Path | None) -> None:
        if self._given is None and folder is None:
            raise DescriptionError('loggers="csv" writes to the run folder; pass folder= to the Trainer, or CSV("metrics.csv").')
        if self._given is not None and not self._given.parent.is_dir():
            raise DescriptionError(f"CSV({str(self._given)!r}) cannot be written: there is no folder {self._given.parent}.")

    def start(self, description: Mapping[str, Any]) -> int:
        path = self._given or Path(description["folder"]) / FILE
        self._columns = ["kind", "step", "epoch"]
        self._file = path.open("w", encoding="utf-8", newline="")
        self._write(dict(zip(self._columns, self._columns, strict=True)))
        return 0

    def log(self, row: Mapping[str, Any]) -> None:
        numbers = numbers_of(dict(row))
        if not numbers:
            return
        if new := [name for name in numbers if name not in self._columns]:
            self._widen(new)
        self._write({**numbers, "kind": row["kind"], "step": row["step"], "epoch": row["epoch"]})

    def finish(self, state: str) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, values: Mapping[str, Any]) -> None:
        assert self._file is not None
        csv.DictWriter(self._file, self._columns, restval="").writerow(values)
        self._file.flush()

    def _widen(self, new: list[str]) -> None:
        """Write the table again with more columns, beside it, so that who reads it finds a whole one."""
        assert self._file is not None
        path = Path(self._file.name)
        self._file.close()
        self._columns += new
        beside = path.with_name(f".{path.name}.wider")
        with path.open(encoding="utf-8", newline="") as narrow, beside.open("w", encoding="utf-8", newline="") as wide:
            writer = csv.DictWriter(wide, self._columns, restval="")
            writer.writeheader()
            writer.writerows(csv.DictReader(narrow))
        os.replace(beside, path)
        self._file = path.open("a", encoding="utf-8", newline="")
