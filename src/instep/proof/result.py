"""Results: a row for each promise, the causes where one does not hold, and the Proof that has them all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from instep.errors import DescriptionError
from instep.text import Paint, coloured, columns, fold, listed, plain

Verdict = Literal["bitwise", "exact", "differs", "fails", "does not apply", "not tried"]
HOLD = ("bitwise", "exact")
BROKEN = ("differs", "fails")

# Promise by promise, in the order of the rows: what it says in short.
PROMISES = {
    "repeat": "the same run again gives the same: the ground that the others stand on",
    "split": "any update_cycle or micro_batch_size gives the training of the whole batch",
    "interrupt": "a run that is killed and started again equals the run that never stopped",
    "spread": "several processes give the training of one",
    "load": "any number of loader workers gives the same samples",
    "observe": "evaluating, logging, checkpoints, progress, the doctor, draws of your own: the same weights",
    "tune": "a range test and a batch-size search leave no trace",
    "overflow": "a micro-batch that does not fit in memory is split, and the update repeated",
    "plain": "the weights are those of the plain PyTorch loop",
}
# What is not promised, and documented so. Each can be allowed by its name.
LIMITS = {
    "draws": "dropout and other random draws in the model are other ones in another split",
    "batchnorm": "BatchNorm takes its statistics over micro-batches, and each process its own",
    "coupled-loss": "a loss that compares the samples of a batch with each other is another one on a part of it",
    "coupled-model": "a module that mixes the samples of a batch gives something else on a part of it",
    "forward-state": "state that a forward changes: in a split there are more forwards",
}


@dataclass(frozen=True)
class Cause:
    """Why a promise does not hold: what was seen, with numbers; and what to change, with the line where there is one."""

    name: str  # "batchnorm", "wrong-weight", …
    what: str
    fix: str
    where: str = ""  # modules, or FILE:LINE

    @property
    def is_limit(self) -> bool:
        """Whether Instep promises nothing here."""
        return self.name in LIMITS


@dataclass(frozen=True)
class Row:
    """One promise on one training."""

    promise: str
    arrangement: str
    verdict: Verdict
    size: float | None = None  # of the difference: "exact 3e-8"
    meaning: str = ""
    causes: tuple[Cause, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict)  # by precision: the largest difference of a gradient
    bound: float | None = None  # that the verdict went by, in the last of these precisions
    noise: tuple[str, ...] = ()  # tensors whose gradient is rounding noise
    seconds: float = 0.0

    @property
    def result(self) -> str:
        """`bitwise`, `exact 3e-8`, `differs 2e-2`, `does not apply`; `differs` alone where what differs is no tensor."""
        from instep.proof.subject import rounds_to

        has_no_size = self.size is None or self.verdict == "bitwise" or (self.verdict == "differs" and self.size == 0)
        return self.verdict if has_no_size else f"{self.verdict} {rounds_to(self.size or 0.0)}"

    @property
    def holds(self) -> bool:
        return self.verdict not in BROKEN

    def is_allowed(self, allow: Sequence[str]) -> bool:
        """Whether all that is wrong with it is a limit that somebody has allowed."""
        return bool(self.causes) and self.verdict == "differs" and all(cause.name in allow for cause in self.causes)


@dataclass(frozen=True)
class Proof:
    """What came of proving a training: `ok`, the rows, and as text a table with the causes below it."""

    rows: tuple[Row, ...]
    title: str = ""
    allow: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every promise that was tried holds; what differs by a limit that was allowed does not count."""
        return all(row.holds or row.is_allowed(self.allow) for row in self.rows)

    def __getitem__(self, promise: str) -> Row:
        found = next((row for row in self.rows if row.promise == promise), None)
        if found is None:
            raise KeyError(promise)
        return found

    def to_record(self) -> dict[str, Any]:
        """Everything, in JSON's types."""
        rows = [asdict(row) | {"result": row.result, "allowed": row.is_allowed(self.allow)} for row in self.rows]
        return {"ok": self.ok, "title": self.title, "allow": list(self.allow), "rows": rows}

    def text(self, *, width: int = 100, colour: bool = False) -> str:
        """The table, the causes, and what it comes to."""
        paint = coloured if colour else plain
        table = columns(
            ("promise", "arrangement", "result"),
            [(row.promise, row.arrangement, row.result) for row in self.rows],
            left=("promise", "arrangement", "result"),
            width=width,
            paint=paint,
            styles={"result": _style},
        )
        lines = [*([fold(self.title, width), ""] if self.title else []), *table, ""]
        told: dict[Cause | str, str] = {}  # in which row; said in full only there
        for row in self.rows:
            lines += _explain(row, self.allow, width, paint, told)
        return "\n".join([*lines, *self._ending(width, paint)])

    def _ending(self, width: int, paint: Paint) -> list[str]:
        wrong = [row for row in self.rows if not row.holds and not row.is_allowed(self.allow)]
        limits = sorted({cause.name for row in wrong for cause in row.causes if cause.is_limit})
        if not wrong:
            allowed = [row.promise for row in self.rows if not row.holds]
            but = f" What differs in {listed(allowed)} was allowed." if allowed else ""
            held = listed(dict.fromkeys(row.promise for row in self.rows if row.verdict in HOLD))
            return [paint(fold(f"ok: {held or 'nothing'} held.{but}", width), "green")]
        said = f"not ok: {listed(dict.fromkeys(row.promise for row in wrong))}."
        if limits and all(row.verdict == "differs" and all(c.is_limit for c in row.causes) and row.causes for row in wrong):
            names = ", ".join(f'"{limit}"' for limit in limits)
            said += (
                " This is a known limit, which Instep does not promise (docs/prove.md). Where it is meant: "
                f"--allow {','.join(limits)}, in Python allow=[{names}]."
            )
        return [paint(fold(said, width), "red")]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Proof(ok={self.ok}, {', '.join(f'{row.promise}: {row.result}' for row in self.rows)})"

    def _repr_html_(self) -> str:
        from instep.drawing.html import block, paragraph, table

        head = ("promise", "arrangement", "result", "what it means")
        rows = [(row.promise, row.arrangement, row.result, row.meaning) for row in self.rows]
        causes = [paragraph(f"{row.promise}: {cause.what} {cause.fix}") for row in self.rows for cause in row.causes]
        wrong = [place for place, row in enumerate(self.rows) if not row.holds]
        return block(paragraph(self.title), table(head, rows, left=head, bold=wrong), *causes)


def check_allowed(allow: Sequence[str]) -> tuple[str, ...]:
    """The limits that were allowed; others are an error."""
    allow = (allow,) if isinstance(allow, str) else tuple(allow)
    for name in allow:
        if name not in LIMITS:
            raise DescriptionError(f"allow={name!r} is no limit that can be allowed; there are {', '.join(LIMITS)}.")
    return allow


def check_promises(promises: Sequence[str] | None) -> tuple[str, ...]:
    """The promises that were asked for, in the order of the rows; `repeat` is always tried."""
    if promises is None:
        return tuple(PROMISES)
    promises = (promises,) if isinstance(promises, str) else tuple(promises)
    for name in promises:
        if name not in PROMISES:
            raise DescriptionError(f"no promise is called {name!r}; there are {', '.join(PROMISES)}.")
    if not promises:
        raise DescriptionError(f"promises= names none; there are {', '.join(PROMISES)}.")
    return tuple(name for name in PROMISES if name in promises or name == "repeat")


def _style(result: str) -> str:
    if result.startswith(HOLD):
        return "green"
    return "red" if result.startswith(BROKEN) else "dim"


def _explain(row: Row, allow: Sequence[str], width: int, paint: Paint, told: dict[Cause | str, str]) -> list[str]:
    """What the result of a row means; for those that do not hold with the causes. What was said of another is not repeated."""
    is_said = row.meaning in told and row.holds  # what does not hold is said in each row, even in the same words
    lines = [f"{paint(row.promise, 'bold')}: {row.meaning}"] if row.meaning and not is_said else []
    told[row.meaning] = row.promise
    for cause in row.causes:
        limit = " (a limit, allowed)" if cause.name in allow else " (a limit: not promised)" if cause.is_limit else ""
        again = ": as above" if cause in told else ""
        lines += [f"  cause   {cause.name}{limit}{f', in {cause.where}' if cause.where else ''}{again}"]
        if cause in told:
            continue
        told[cause] = row.promise
        lines += [f"  seen    {cause.what}", f"  change  {cause.fix}"]
    return [fold(line, width) for line in lines] + ([""] if row.causes else [])
