"""`instep.graph`: the autograd graph of a loss, of a model's output, or of a Trainer's batch, to print, show or save."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from instep import keys
from instep.errors import DescriptionError
from instep.loop.graph.capture import capture, read_graph
from instep.loop.graph.record import GraphRecord
from instep.loop.left_as_found import LeftAsFound
from instep.loop.objective import Loss
from instep.report.graph import markup
from instep.report.graph.difference import overlay
from instep.report.graph.drawing import Drawing, draw
from instep.report.graph.html import fragment, page
from instep.report.graph.svg import svg
from instep.report.graph.tree import tree
from instep.text import coloured, plain


class Graph:
    """A graph to look at: `print` it, show it in a notebook, `save` it, or compare it with another one by `diff`."""

    def __init__(self, drawing: Drawing, record: GraphRecord | None = None) -> None:
        self.drawing = drawing
        self.record = record  # the data; None for a difference

    def tree(self, *, width: int = 80, depth: int | None = None, colour: bool = False) -> str:
        """Text for a terminal; modules deeper than `depth` are one line each."""
        return tree(self.drawing, width=width, depth=depth, paint=coloured if colour else plain)

    def dot(self) -> str:
        """For Graphviz."""
        return markup.dot(self.drawing)

    def mermaid(self) -> str:
        """For a block of Mermaid in Markdown."""
        return markup.mermaid(self.drawing)

    def svg(self) -> str:
        """A picture; it is laid out here and needs no other program."""
        return svg(self.drawing)

    def html(self) -> str:
        """A page that needs nothing else: modules open and close, names are searched, what is saved is in a table."""
        return page(self.drawing)

    def diff(self, other: "Graph") -> "Graph":
        """This graph and another one over each other: `-` marks what only this one has, `+` what only the other has."""
        return Graph(overlay(self.drawing, other.drawing))

    @property
    def is_same(self) -> bool:
        """Of a difference: whether there is none."""
        return not any(box.mark for box in self.drawing.boxes)

    def save(self, path: str | Path) -> Path:
        """Write it as the file's name ends: .html, .svg, .dot, .mmd."""
        form, path = form_of(path), Path(path)
        path.write_text(form(self), encoding="utf-8")
        return path

    def __repr__(self) -> str:
        return self.tree()

    def _repr_html_(self) -> str:
        return fragment(self.drawing)


_FORMS: dict[str, Callable[[Graph], str]] = {".html": Graph.html, ".svg": Graph.svg, ".dot": Graph.dot, ".mmd": Graph.mermaid}


def form_of(path: str | Path) -> Callable[[Graph], str]:
    """What makes the text of a file of this name."""
    form = _FORMS.get(Path(path).suffix.lower())
    if form is None:
        names = "graph.html, graph.svg, graph.dot or graph.mmd"
        raise DescriptionError(f"{path} does not say in which form to save a graph; name it {names}.")
    return form


class Run(Protocol):
    """A run whose objective can be looked at."""

    def record_graph(self, batch: int, objective: str | None) -> GraphRecord: ...


@runtime_checkable
class HasRun(Protocol):
    """A Trainer."""

    @property
    def run(self) -> Run: ...


def graph(
    of: Tensor | Loss | nn.Module | HasRun,
    *inputs: Any,
    model: nn.Module | None = None,
    batch: int = 0,
    objective: str | None = None,
    **named_inputs: Any,
) -> Graph:
    """The autograd graph as it is after a forward: operations, leaves, what they save for the backward, cuts, unused parameters.

    `of` is a loss that was computed, a model that is called with `inputs`, or a Trainer, whose objective gets one of its first
    batches (`batch`; `objective` names it where there are several). A model is called in the mode that it is in, and everything
    is put back: buffers, attributes, generators. Of a loss alone torch does not tell which module made what; `model` gives its
    parameters their names, and shows those that the loss does not reach.

    >>> import torch
    >>> layer = nn.Linear(3, 2)
    >>> print(graph(layer, torch.ones(4, 3)))
    Linear: 2 operations, 2 parameters, 0 B saved for the backward
    ├ Linear
    │ ├ ● weight  2 × 3
    │ ├ · T  3 × 2
    │ ├ ● bias  2
    │ └ · Addmm  4 × 2
    └ = result  4 × 2
    """
    if isinstance(of, Tensor | Loss):
        _refuse(inputs, named_inputs, of)
        record = read_graph(of.value if isinstance(of, Loss) else of, {} if model is None else {"": model}, title="loss")
    elif isinstance(of, nn.Module):
        record = _of_model(of, inputs, named_inputs)
    elif isinstance(of, HasRun):
        _refuse(inputs, named_inputs, of)
        record = of.run.record_graph(batch, objective)
    else:
        raise DescriptionError(
            f"a {type(of).__name__} has no autograd graph; pass a loss, a model and its inputs (graph(model, x)), or a Trainer."
        )
    return Graph(draw(record), record)


def _of_model(model: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> GraphRecord:
    if not inputs and not named:
        raise DescriptionError("a model has no graph before it is called; pass its inputs too: graph(model, x).")
    first = next(model.parameters(), None)
    with LeftAsFound([model]).looking("graph"), keys.fork_rng(None if first is None else first.device):
        return capture(lambda: model(*inputs, **named), {"": model}, (inputs, dict(named)), type(model).__name__)


def _refuse(inputs: tuple[Any, ...], named: Mapping[str, Any], of: Any) -> None:
    if inputs or named:
        raise DescriptionError(f"a {type(of).__name__} takes no inputs here; only a model is called: graph(model, x).")
