"""The forms of a graph: what each shows, and that looking leaves no trace."""

import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import instep
from instep import Loss, Trainer
from instep.errors import DescriptionError
from instep.report.graph.graph import Graph

HOSTILE = '</script><b onclick="x">"]&\\\x1b[31m'


class Gated(nn.Module):
    """Takes one of two ways, as the data says; a third layer is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Linear(4, 4)
        self.extra = nn.Linear(4, 4)
        self.spare = nn.Linear(4, 4)
        self.head = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3))

    def forward(self, x: Tensor) -> Any:
        y = torch.relu(self.plain(x))
        if x[0, 0] > 0:
            y = y + self.extra(y).tanh()
        return self.head(y)


def gated(sign: float) -> Graph:
    torch.manual_seed(0)
    return instep.graph(Gated(), torch.full((2, 4), sign))


def test_a_tree_shows_modules_leaves_and_sizes() -> None:
    lines = gated(1.0).tree(width=70).splitlines()
    assert lines[0].startswith("Gated: ")
    assert "│ │ ├ ● weight  4 × 4" in lines
    assert "│ ├ · Relu  2 × 4                                                 32 B" in lines
    assert "├ = result  2 × 3" in lines
    assert lines[-2:] == ["! 2 parameters not reached: spare.weight, spare.bias; the loss gives", "  no gradient"]
    assert max(map(len, lines)) <= 70


def test_a_tree_of_a_few_levels() -> None:
    lines = gated(1.0).tree(depth=1).splitlines()
    assert lines[1].startswith("├ Gated ")
    assert lines[2].startswith("├ = result")
    assert any("head: Sequential" in line for line in gated(1.0).tree(depth=2).splitlines())
    assert not any("BatchNorm1d" in line for line in gated(1.0).tree(depth=2).splitlines())


def test_every_form_has_every_node(tmp_path: Path) -> None:
    graph = gated(1.0)
    count, edges = len(graph.drawing.boxes), len(graph.drawing.edges)
    picture = ET.fromstring(graph.svg())
    name = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f".//{name}rect")) == count + len(graph.drawing.groups)
    assert len(picture.findall(f".//{name}path")) == edges
    assert graph.dot().count(" -> ") == graph.mermaid().count(" --> ") == edges
    assert graph.dot().count("subgraph cluster_") == graph.mermaid().count("subgraph ") == len(graph.drawing.groups)
    for form, text in (("html", graph.html()), ("svg", graph.svg()), ("dot", graph.dot()), ("mmd", graph.mermaid())):
        assert graph.save(tmp_path / f"graph.{form}").read_text(encoding="utf-8") == text
    with pytest.raises(DescriptionError, match=r"graph\.png does not say in which form .* name it graph\.html"):
        graph.save(tmp_path / "graph.png")


def test_boxes_do_not_overlap_and_stand_in_their_groups() -> None:
    from instep.report.graph.layout import levels, place

    drawing = gated(1.0).drawing
    placed = place(drawing, levels(drawing))
    boxes = [placed[f"n{number}"] for number in range(len(drawing.boxes))]
    passing = [at for key, at in placed.items() if " b" in key]  # where edges pass a layer
    assert len(passing) > 5
    for number, one in enumerate(boxes):
        for other in (*boxes[:number], *passing):
            apart = one.x >= other.x + other.width or other.x >= one.x + one.width
            assert apart or one.y >= other.y + other.height or other.y >= one.y + one.height
        group = drawing.boxes[number].group
        if group is not None:
            around = placed[f"g{group}"]
            assert around.x <= one.x
            assert one.x + one.width <= around.x + around.width
            assert around.y <= one.y
            assert one.y + one.height <= around.y + around.height
    assert all(placed[f"n{before}"].y < placed[f"n{after}"].y for before, after in drawing.edges)


def test_names_stay_text() -> None:
    model = nn.Sequential()
    model.add_module(HOSTILE.replace(".", ""), nn.Linear(4, 3))
    graph = instep.graph(model, torch.ones(2, 4))
    ET.fromstring(graph.svg())
    assert "<b" not in graph.svg()
    assert "</script><b" not in graph.html()
    assert "<b" not in graph.mermaid().replace("<br>", "")
    assert "\x1b" not in graph.tree() + graph.dot() + graph.mermaid() + graph.svg() + graph.html()
    assert all(line.replace('\\"', "").count('"') % 2 == 0 for line in graph.dot().splitlines())
    assert "<script" not in graph._repr_html_()


def test_a_difference_shows_what_control_flow_did() -> None:
    difference = gated(-1.0).diff(gated(1.0))
    text = difference.tree(width=120)
    assert not difference.is_same
    assert "only in the second: 1 module call: extra: Linear" in text
    assert "only in the first: 2 unreached parameters: extra.weight, extra.bias" in text
    assert [line.split("+ ")[1].split()[:2] for line in text.splitlines() if "+ ·" in line] == [
        ["·", "T"], ["·", "Addmm"], ["·", "Tanh"], ["·", "Add"],
    ]  # fmt: skip
    marks = {box.label for box in difference.drawing.boxes if box.mark == "second"}
    assert marks == {"weight", "bias", "T", "Addmm", "Tanh", "Add"}
    same = gated(1.0).diff(gated(1.0))
    assert same.is_same
    assert "the two graphs are the same" in same.tree()
    for form in ("svg", "dot", "mermaid", "html"):
        assert "second" in getattr(difference, form)()


def test_of_a_loss_that_was_computed() -> None:
    model = nn.Linear(4, 3)
    loss = cross_entropy(model(torch.ones(2, 4)), torch.tensor([0, 1]))
    assert "· NllLoss  scalar" in str(instep.graph(loss))
    assert "● weight  3 × 4" in str(instep.graph(Loss(loss, 2), model=model))
    loss.backward()
    assert "what was saved is freed already" in str(instep.graph(loss))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((nn.Linear(2, 2),), r"a model has no graph before it is called; pass its inputs too: graph\(model, x\)"),
        ((torch.ones(1, requires_grad=True), 3), "a Tensor takes no inputs here; only a model is called"),
        (("loss",), "a str has no autograd graph; pass a loss, a model and its inputs"),
    ],
)
def test_what_cannot_be_looked_at(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        instep.graph(*arguments)


class Counting(nn.Module):
    """Changes with every forward: a buffer, an attribute, a generator."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout())
        self.calls = 0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.layer(x) + torch.rand(())


def test_looking_changes_nothing() -> None:
    model = Counting()
    model.layer[2].eval()
    model.layer[0].weight.grad = torch.ones(3, 4)
    torch.manual_seed(1)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    generator, modes = torch.get_rng_state(), [part.training for part in model.modules()]
    instep.graph(model, torch.randn(4, 4, generator=torch.Generator().manual_seed(0)))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert [part.training for part in model.modules()] == modes
    assert model.calls == 0
    assert torch.equal(model.layer[0].weight.grad, torch.ones(3, 4))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def trainer_of(model: nn.Module, **more: Any) -> Trainer:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(12, 4, generator=generator), torch.randint(3, (12,), generator=generator)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"loss": cross_entropy, "optimizer": optimizer, "train": (x, y), "epochs": 2, "batch_size": 4, "progress": False}
    return Trainer(model, **{**options, **more})


@pytest.mark.parametrize("split", [{}, {"update_cycle": 2, "schedule": instep.OneCycle(max_lr=0.2)}], ids=["whole", "split"])
def test_a_run_that_was_looked_at_trains_the_same(split: dict[str, Any]) -> None:
    weights = []
    for looks in (False, True):
        torch.manual_seed(0)
        trainer = trainer_of(Counting(), **split)
        for update in trainer.updates():
            if looks and update.step in (0, 3):
                assert "NllLoss" in str(instep.graph(trainer, batch=1))
        weights.append({name: value.clone() for name, value in trainer.model.state_dict().items()})
        assert trainer.model.calls == 6 * (2 if split else 1)
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_the_graph_of_a_run_is_that_of_a_micro_batch() -> None:
    graph = instep.graph(trainer_of(Gated(), update_cycle=2))
    assert str(graph).startswith("batch 0, 2 samples: ")
    with pytest.raises(DescriptionError, match=r"an epoch has no batch 9 \(the first is 0\)"):
        instep.graph(trainer_of(Gated()), batch=9)
    with pytest.raises(DescriptionError, match="no objective is called 'd'; there is only one"):
        instep.graph(trainer_of(Gated()), objective="d")


def test_an_objective_of_several() -> None:
    models = {"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)}

    def objective(name: str) -> Any:
        return lambda model, batch: cross_entropy(model[name](batch[0]), batch[1])

    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in models.items()}
    trainer = trainer_of(
        nn.ModuleDict(models), loss=None, objective={name: objective(name) for name in models}, optimizer=optimizers
    )
    text = str(instep.graph(trainer, objective="b"))
    assert text.startswith("b, batch 0, 4 samples: ")
    assert "├ b: Linear" in text
    assert all(p.requires_grad for p in trainer.model.parameters())
    with pytest.raises(DescriptionError, match="no objective is called 'c'; there are a, b"):
        instep.graph(trainer, objective="c")


def test_a_thousand_nodes_stay_quick() -> None:
    x = torch.ones(3, requires_grad=True)
    skipped = chain = x * 1
    for place in range(1_000):
        chain = chain.sin() if place % 7 else chain + skipped
    began = time.process_time()
    graph = instep.graph(chain.sum())
    assert len(graph.drawing.boxes) > 1_000
    assert len(graph.svg()) + len(graph.html()) < 2_000_000
    assert time.process_time() - began < 5


def test_a_weight_stands_above_the_operation_that_uses_it_and_an_edge_beside_what_it_passes() -> None:
    from instep.report.graph.layout import levels

    x = torch.ones(2, 3, requires_grad=True)
    late = torch.ones(3, 3, requires_grad=True)
    drawing = instep.graph((x.sin().cos().exp() @ late.t() + x).sum()).drawing
    level = levels(drawing)[None]
    row = {
        drawing.boxes[int(item[1:])].label: place for place, layer in enumerate(level.layers) for item in layer if item[0] == "n"
    }
    assert row["T"] == row["Exp"] == row["Mm"] - 1
    (passed,) = [len(points) for points in level.edges.values() if points]
    assert passed == row["Add"] - 1  # from the first row
