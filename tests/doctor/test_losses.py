"""What the cases do not show: how source is read for means of means, and that tensors compare as before when a visit is over."""

from pathlib import Path

import pytest
import torch

import instep
from instep.doctor.row_ends import tail_lengths
from instep.doctor.watch.averages import divides_by_batches

LOOP = """
def evaluate(model, loader):
    total, losses, n = 0.0, [], 0
    for x, y in loader:
        loss = criterion(model(x), y)
        {inside}
    return {result}
"""


@pytest.mark.parametrize(
    ("inside", "result", "unweighted"),
    [
        ("total += loss.item()", "total / len(loader)", True),
        ("total += loss.item() * len(x)", "total / len(loader.dataset)", False),
        ("total += float(loss)", "total / n", False),
        ("total += loss.item(); n += 1", "total / n", True),
        ("total += loss.item(); n += len(x)", "total / n", False),
        ("losses.append(loss.item())", "np.mean(losses)", True),
        ("losses.append(loss.item())", "sum(losses) / len(losses)", True),
        ("losses.append(loss.item() * len(x))", "sum(losses) / len(losses)", False),
        ("losses.append(loss)", "torch.stack(losses).mean()", True),
        ("print(loss.item())", "total / len(loader)", False),
    ],
)
def test_means_of_means_are_told_by_the_source(tmp_path: Path, inside: str, result: str, unweighted: bool) -> None:
    script = tmp_path / "evaluation.py"
    script.write_text(LOOP.format(inside=inside, result=result))
    assert divides_by_batches(f"{script}:5") is unweighted


def test_source_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert divides_by_batches(f"{tmp_path}/gone.py:5") is False


def test_tails_are_counted_without_gaps() -> None:
    rows = torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]]).bool()
    assert tail_lengths(rows).tolist() == [2, 1, 0, 3]


def test_tensors_compare_as_before_when_the_visit_is_over() -> None:
    before = (torch.Tensor.__eq__, torch.Tensor.eq, torch.eq, torch.Tensor.__sub__, torch.Tensor.argmax)
    with instep.watch(aloud=False):
        assert torch.Tensor.__eq__ is not before[0]
        assert (torch.ones(2) == torch.ones(2)).all()
        assert len({torch.ones(1), torch.ones(1)}) == 2
    assert (torch.Tensor.__eq__, torch.Tensor.eq, torch.eq, torch.Tensor.__sub__, torch.Tensor.argmax) == before
    assert not {"__eq__", "eq", "__sub__", "argmax"} & set(vars(torch.Tensor))
