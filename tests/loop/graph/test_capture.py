"""What a graph says of a forward, held against what can be worked out by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from instep.errors import DescriptionError
from instep.loop.graph.capture import capture, read_graph
from instep.loop.graph.record import GraphRecord, Node


def of(model: nn.Module, x: Tensor, forward: Any = None) -> GraphRecord:
    return capture(forward or (lambda: model(x)), {"": model}, (x,), "test")


def node(graph: GraphRecord, label: str) -> Node:
    (found,) = [one for one in graph.nodes if one.label == label]
    return found


def labels(graph: GraphRecord, *kinds: str) -> list[str]:
    return [one.label for one in graph.nodes if one.kind in kinds]


def test_a_linear_layer() -> None:
    model = nn.Sequential(nn.Linear(5, 3), nn.ReLU())
    graph = of(model, torch.randn(4, 5))
    assert sorted(labels(graph, "parameter")) == ["0.bias", "0.weight"]
    assert labels(graph, "operation") == ["T", "Addmm", "Relu"]
    assert node(graph, "0.weight").shape == (3, 5)
    assert (node(graph, "Addmm").shape, node(graph, "Addmm").dtype) == ((4, 3), "float32")
    edges = {(graph.nodes[a].label, graph.nodes[b].label) for a, b in graph.edges}
    assert edges == {("0.weight", "T"), ("T", "Addmm"), ("0.bias", "Addmm"), ("Addmm", "Relu"), ("Relu", "result")}
    assert all(a < b for a, b in graph.edges)


def test_operations_belong_to_the_call_of_a_module() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x)) * 2  # type: ignore[no-any-return]

    graph = of(Twice(), torch.randn(2, 3))
    assert [(one.name, one.kind, one.parent, one.time) for one in graph.calls] == [
        ("", "Twice", None, 1),
        ("layer", "Linear", 0, 1),
        ("layer", "Linear", 0, 2),
    ]
    assert [(one.label, one.call) for one in graph.nodes if one.kind == "operation"] == [
        ("T", 1), ("Mm", 1), ("T", 2), ("Mm", 2), ("Mul", 0),
    ]  # fmt: skip


def test_what_is_saved_is_counted_once_and_not_where_somebody_has_it_anyway() -> None:
    model = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    graph = of(model, torch.randn(4, 5))
    relu = node(graph, "Relu")
    assert [(one.name, one.shape, one.size_bytes, one.held_by) for one in relu.saved] == [("result", (4, 3), 4 * 3 * 4, "")]
    first, second = [one for one in graph.nodes if one.label == "Addmm"]
    assert {one.held_by for one in first.saved} == {"input"}
    assert [one.held_by for one in second.saved if one.name == "mat1"] == ["Relu"]
    assert [one.held_by for one in second.saved if one.name == "mat2"] == ["2.weight"]
    assert graph.saved_bytes == 48


def test_a_view_keeps_the_whole_storage_alive() -> None:
    weight = torch.randn(10, requires_grad=True)
    graph = read_graph((torch.randn(1000, 10)[:1] * weight).sum(), {})
    assert node(graph, "Mul").saved_bytes == 1000 * 10 * 4


def test_what_checkpointing_computes_again_is_not_kept() -> None:
    class Net(nn.Sequential):
        def forward(self, x: Tensor) -> Any:
            return checkpoint(super().forward, x, use_reentrant=False)

    plain, spared = nn.Sequential(nn.Linear(5, 3), nn.Tanh()), Net(nn.Linear(5, 3), nn.Tanh())
    x = torch.randn(4, 5)
    assert of(plain, x).saved_bytes == 48
    assert of(spared, x).saved_bytes == 0


def test_after_a_backward_what_was_saved_is_free() -> None:
    loss = nn.Sequential(nn.Linear(5, 3), nn.Tanh())(torch.randn(4, 5)).sum()
    assert not read_graph(loss, {}).is_freed
    loss.backward()
    assert read_graph(loss, {}).is_freed


def test_parameters_that_the_loss_does_not_reach() -> None:
    model = nn.ModuleDict({"used": nn.Linear(5, 3), "spare": nn.Linear(5, 3), "cold": nn.Linear(5, 3)})
    model["cold"].requires_grad_(False)
    x = torch.randn(4, 5)
    graph = of(model, x, lambda: model["cold"](x).sum() + model["used"](x).sum())
    assert [one.name for one in graph.unreached] == ["spare.weight", "spare.bias"]
    assert {one.name for one in graph.unused if one.is_frozen} == {"cold.weight", "cold.bias"}


class Cut(nn.Module):
    """A body and a head, with something between them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
        self.head = nn.Linear(3, 2)
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "no_grad":
            with torch.no_grad():
                x = self.body(x)
        elif self.how == "inside":
            x = self.body(x)
            with torch.no_grad():
                x = x * 2
        else:
            x = self.body(x).detach() if self.how == "detach" else self.body(x).data
        return self.head(x + 1)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("how", "kind", "call"),
    [("no_grad", "no_grad", "body"), ("inside", "no_grad", ""), ("detach", "detach", ""), ("data", "data", "")],
)
def test_a_cut_is_named_with_its_place(how: str, kind: str, call: str) -> None:
    model = Cut(how)
    graph = of(model, torch.randn(4, 5))
    (cut,) = graph.cuts
    assert cut.label == kind
    assert cut.call is not None
    assert graph.calls[cut.call].name == call
    assert cut.where.startswith("test_capture.py:")
    assert cut.shape == (4, 3)
    users = [graph.nodes[b].label for a, b in graph.edges if graph.nodes[a] is cut]
    assert users == ["Addmm"]
    assert len(graph.unreached) == 4


def test_a_detached_prediction_for_a_metric_is_no_cut() -> None:
    model = nn.Linear(5, 3)
    x = torch.randn(4, 5)

    def forward() -> Tensor:
        output = model(x)
        with torch.no_grad():
            _ = (output * 2).mean().item()
        _ = output.detach().argmax(1)
        return output.sum()  # type: ignore[no-any-return]

    assert of(model, x, forward).cuts == ()


def test_a_result_without_a_graph_names_its_cut() -> None:
    model = nn.Linear(5, 3)
    x = torch.randn(4, 5)
    graph = of(model, x, lambda: model(x).detach().sum())
    (cut,) = graph.cuts
    assert [(graph.nodes[a].label, graph.nodes[b].label) for a, b in graph.edges] == [("detach", "result")]
    assert [one.name for one in graph.unreached] == ["weight", "bias"]
    assert cut.label == "detach"


def test_sparse_and_empty_tensors_have_sizes() -> None:
    weight = torch.randn(3, 2, requires_grad=True)
    matrix = torch.eye(3).to_sparse()
    assert node(read_graph(torch.sparse.mm(matrix, weight), {}), "SparseAddmm").saved_bytes == 3 * (2 * 8 + 4)
    assert read_graph(torch.ones(0, requires_grad=True).exp(), {}).saved_bytes == 0


def test_meta_tensors_count_as_they_would() -> None:
    model = nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Tanh()).to("meta")
    assert of(model, torch.empty(4, 5, device="meta")).saved_bytes == 2 * 48


def test_nothing_to_look_at_is_said() -> None:
    with pytest.raises(DescriptionError, match="no tensor of floating-point numbers in what was returned, a list"):
        of(nn.Linear(2, 2), torch.ones(1), lambda: [torch.ones(2, dtype=torch.long)])


def test_a_compiled_model_is_looked_at_as_it_was_written() -> None:
    plain = nn.Sequential(nn.Linear(5, 3), nn.Tanh())
    graph = of(torch.compile(plain, backend="eager"), torch.randn(4, 5))  # type: ignore[arg-type]  # a module
    assert labels(graph, "operation") == ["T", "Addmm", "Tanh"]


def test_a_forward_that_fails_leaves_no_hook_behind() -> None:
    model = nn.Linear(5, 3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        of(model, torch.ones(2, 4))
    assert not torch.nn.modules.module._has_any_global_hook()
    assert torch.overrides._get_current_function_mode_stack() == []


def test_lazy_parameters_are_refused() -> None:
    with pytest.raises(DescriptionError, match="weight is a lazy parameter without a shape yet; send one batch"):
        of(nn.LazyLinear(3), torch.randn(4, 5))
