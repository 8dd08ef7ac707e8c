"""Means of batch means: losses of evaluation passes, added up by sample and by batch, and how the script itself adds them up.

The script's average is a Python number that nobody can watch; its source is read instead, once for each line that may be
concerned.
"""

import ast
import linecache
import statistics
from dataclasses import field
from functools import partial
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.mean_sources import is_plain_meter, takes_mean
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loaders, Pass, first_tensor
from instep.doctor.watch.losses import LossKind

LIMIT = 64
MEANS = ("mean", "fmean", "average", "nanmean")


@record_class
class Average:
    """Mean losses of one line, over passes of a loader without training."""

    site: str | None
    first_step: int
    passes: int = 0  # whole ones, with batches of unequal size
    difference: float = 0.0  # the largest, relative, between the mean of means and the mean over samples
    by_batch: float = 0.0  # at that pass
    by_sample: float = 0.0
    smallest: int = 0
    largest: int = 0
    unweighted: bool | None = None  # whether the source divides by the number of batches; None: not read


@part_class
class Averages:
    """The part of the trace about averages over batches."""

    all: dict[str | None, Average] = field(default_factory=dict)


class AverageWatch:
    """Fills `Averages`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._loaders = trace.part(Averages), trace.part(Loaders)
        self._open: dict[str | None, list[tuple[int, float]]] = {}  # (size, loss) of the pass that goes on
        self._pass: Pass | None = None
        self._chunks: dict[str | None, list[tuple[int, float]]] = {}  # (size, loss) since the last backward, without a loader
        self._rows = 0  # of the last output without gradient
        self._means: dict[str, bool | None] = {}  # lines that take a number from a tensor, and whether it is a mean

    def on_loss(self, kind: LossKind, called: Called, input: Tensor, target: Any) -> None:
        last, result = self._loaders.last, called.result
        if input.requires_grad or not isinstance(result, Tensor) or result.dim():
            return
        if str(called.kwargs.get("reduction", "mean")) != "mean" or self._trace.steps == 0:
            return
        if last is None or last.ended:
            self._hub.read(result.detach(), partial(self._add_chunk, kind.site, len(input) if input.dim() else 1))
            return
        if last.size is None:
            return
        if last is not self._pass:
            self._pass, self._open = last, {}
        values = self._open.setdefault(kind.site, [])
        if len(values) < 4096 and len(self._open) <= 8:
            self._hub.read(result.detach(), partial(_add, values, last.size))

    def _add_chunk(self, site: str | None, size: int, loss: float) -> None:
        """Without a loader: a slice of what is evaluated, until the training goes on."""
        values = self._chunks.setdefault(site, [])
        if len(values) < 4096 and len(self._chunks) <= 8:
            values.append((size, loss))

    def after_call(self, call: Call) -> None:
        output = first_tensor(call.output)
        if not call.grad and output is not None and output.dim():
            self._rows = len(output)

    def on_backward(self, *_: Any) -> None:
        if self._chunks:
            self._end_chunks()

    def on_end(self) -> None:
        self._end_chunks()

    def _end_chunks(self) -> None:
        """The last one of several is smaller than the others, which are alike."""
        for site, values in self._chunks.items():
            sizes = [size for size, _ in values]
            if len(values) >= 2 and len(set(sizes)) > 1 and min(sizes) < max(sizes) == statistics.mode(sizes):
                self._compare(site, values)
        self._chunks = {}

    def after_number(self, called: Called) -> None:
        """A number that the script takes from a tensor: of a loss or a metric by hand, where the source says so."""
        last, tensor = self._loaders.last, called.args[0]
        if self._trace.steps == 0 or called.site is None or (last is not None and not last.ended and last.backwards):
            return
        if type(tensor) is not Tensor or tensor.numel() != 1 or tensor.requires_grad or not tensor.is_floating_point():
            return
        if self._means.setdefault(called.site, None) is None:
            self._means[called.site] = len(self._means) <= LIMIT and takes_mean(called.site)
        if not self._means[called.site]:
            return
        if last is None or last.ended:
            if self._rows:
                self._add_chunk(called.site, self._rows, float(called.result))
            return
        if last.size is None:
            return
        if last is not self._pass:
            self._pass, self._open = last, {}
        values = self._open.setdefault(called.site, [])
        if len(values) < 4096 and len(self._open) <= 8:
            values.append((last.size, float(called.result)))

    def on_pass_ends(self, ended: Pass) -> None:
        if ended is not self._pass:
            return
        for site, values in self._open.items():
            if len(values) == ended.batches and len({size for size, _ in values}) > 1:
                self._compare(site, values)
        self._pass, self._open = None, {}

    def _compare(self, site: str | None, values: list[tuple[int, float]]) -> None:
        average = self._part.all.get(site)
        if average is None:
            if len(self._part.all) >= LIMIT:
                return
            average = self._part.all[site] = Average(site, self._trace.steps)
        by_batch = sum(loss for _, loss in values) / len(values)
        by_sample = sum(size * loss for size, loss in values) / sum(size for size, _ in values)
        difference = abs(by_batch - by_sample) / max(abs(by_sample), 1e-12)
        average.passes += 1
        if difference > average.difference:
            average.difference, average.by_batch, average.by_sample = difference, by_batch, by_sample
            average.smallest, average.largest = min(size for size, _ in values), max(size for size, _ in values)
        if average.unweighted is None and difference > 0.01 and site is not None:
            average.unweighted = divides_by_batches(site)


def _add(values: list[tuple[int, float]], size: int, loss: float) -> None:
    values.append((size, loss))


def divides_by_batches(site: str) -> bool:
    """Whether the function around a line adds up what is computed there as it is, and divides by the number of batches."""
    file, _, line = site.rpartition(":")
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return False
    scope = _innermost(tree, int(line), (ast.FunctionDef, ast.AsyncFunctionDef)) or tree
    loop = _innermost(scope, int(line), (ast.For,))
    if not isinstance(loop, ast.For):
        return False
    sums, lists = _collected(loop, int(line))
    counts = _counts_of_batches(scope, loop)
    if any(_is_plain_mean(node, sums, lists, counts) for node in ast.walk(scope)):
        return True
    return any(is_plain_meter(tree, name) for name in _meters(scope, loop, int(line)))


def _meters(scope: ast.AST, loop: ast.For, line: int) -> set[str]:
    """Classes of the objects that are given the loss of that line, by a method, with no factor and nothing beside it."""
    computed = _computed(loop, line)
    objects = set()
    for node in ast.walk(loop):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if given and isinstance(node.func.value, ast.Name) and all(_is_number_of(each, computed, line) for each in given):
            objects.add(node.func.value.id)
    return {
        node.value.func.id
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        if any(ast.unparse(target) in objects for target in node.targets)
    }


def _is_number_of(value: ast.expr, computed: set[str], line: int) -> bool:
    """Whether an argument is a loss of that line; anything else beside it may be a weight."""
    taken = isinstance(value, ast.Call) or ast.unparse(value) in computed
    return taken and not isinstance(getattr(value, "func", None), ast.Name) and _is_loss(value, computed, line)


def _innermost(tree: ast.AST, line: int, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
    around = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.lineno <= line <= (node.end_lineno or 0)]  # type: ignore[attr-defined]
    return max(around, key=lambda node: node.lineno, default=None)  # type: ignore[attr-defined]


def _collected(loop: ast.For, line: int) -> tuple[set[str], set[str]]:
    """Names that are added to, and lists that are appended to, with a loss that nothing multiplies."""
    computed = _computed(loop, line)
    sums, lists = set(), set()
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _is_loss(node.value, computed, line):
            sums.add(ast.unparse(node.target))
        elif _appends(node) and node.args and _is_loss(node.args[0], computed, line):  # type: ignore[attr-defined]
            lists.add(ast.unparse(node.func.value))  # type: ignore[attr-defined]
    return sums, lists


def _computed(loop: ast.For, line: int) -> set[str]:
    """Names of what is computed in that line, with nothing multiplied."""
    return {
        ast.unparse(target)
        for node in ast.walk(loop)
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or 0) and not _has(node.value, ast.Mult)
        for target in node.targets
    }


def _appends(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"


def _is_loss(value: ast.expr, computed: set[str], line: int) -> bool:
    """Whether an expression is the loss of that line, by itself or by name, with no factor."""
    if _has(value, ast.Mult):
        return False
    there = value.lineno <= line <= (value.end_lineno or 0)
    return there or any(isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in computed for node in ast.walk(value))


def _counts_of_batches(scope: ast.AST, loop: ast.For) -> set[str]:
    """Texts that mean the number of batches: `len(loader)`, names of it, counters of the loop."""
    feeds = {ast.unparse(node) for node in ast.walk(loop.iter) if isinstance(node, (ast.Name, ast.Attribute))}
    counts = {f"len({feed})" for feed in feeds}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in counts:
            counts |= {ast.unparse(target) for target in node.targets}
    for node in ast.walk(loop):
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add)
            and isinstance(node.value, ast.Constant)
            and node.value.value == 1
        ):
            counts.add(ast.unparse(node.target))
    return counts


def _is_plain_mean(node: ast.AST, sums: set[str], lists: set[str], counts: set[str]) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        above, below = ast.unparse(node.left), ast.unparse(node.right)
        return (above in sums and below in counts) or any(
            above == f"sum({name})" and below in {f"len({name})", *counts} for name in lists
        )
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return ast.unparse(node.target) in sums and ast.unparse(node.value) in counts
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        inside = {ast.unparse(part) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute))}
        weighted = any(keyword.arg == "weights" for keyword in node.keywords)
        return name in MEANS and bool(inside & lists) and not weighted
    return False


def _has(tree: ast.AST, kind: type[ast.AST]) -> bool:
    return any(isinstance(node, kind) for node in ast.walk(tree))


PATCHES = [Patch("number", ("torch:Tensor.item", "torch:Tensor.__float__"), outside_steps=True)]
OBSERVERS = [AverageWatch]
