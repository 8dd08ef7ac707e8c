"""What cannot be called as it will be called is said before the first step."""

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer
from instep.errors import DescriptionError, Notice, ObjectiveError

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(16) % 3


def trainer(model: Any = None, **options: Any) -> Trainer:
    model = nn.Linear(4, 3) if model is None else model
    options = {"train": (X, Y), "epochs": 1, "batch_size": 8, "progress": False, **options}
    if "optimizer" not in options:
        options["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(model, **options)


class Lightning(nn.Linear):
    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return F.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def step(model: nn.Module, x: Tensor, y: Tensor, *, scale: float = 1.0) -> Tensor:
    return F.cross_entropy(model(x), y)


def test_objectives_that_take_something_else() -> None:
    words = (
        r"objective= is called as objective\(model, batch\), and step takes \(model, x, y, \*, scale=1.0\); unpack the batch "
        r"inside: x, y = batch"
    )
    with pytest.raises(DescriptionError, match=words):
        trainer(objective=step)
    with pytest.raises(DescriptionError, match=r"use objective=lambda model, batch: model.training_step\(batch, 0\)"):
        trainer(objective=Lightning(4, 3).training_step)
    with pytest.raises(DescriptionError, match=r"Lightning.training_step takes \(self, batch, batch_idx\)"):
        trainer(objective=Lightning.training_step)
    with pytest.raises(DescriptionError, match=r"objective=Lightning is a class; call it"):
        trainer(objective=Lightning)
    with pytest.raises(DescriptionError, match=r"objective\(model, batch\), and Linear takes \(input\)"):
        trainer(objective=nn.Linear(4, 3))


def test_objectives_that_can_be_called_are_taken() -> None:
    def more(model: nn.Module, batch: Any, scale: float = 1.0) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1]) * scale

    class Callable:
        def __call__(self, *args: Any) -> Tensor:
            return more(*args)

    model = Lightning(4, 3)
    for objective in (more, Callable(), functools.partial(more, scale=2.0), lambda m, batch: m.training_step(batch, 0)):
        trainer(model, objective=objective).fit()


def test_losses_that_take_something_else() -> None:
    with pytest.raises(DescriptionError, match=r"loss= is called as loss\(output, target\), and .*<lambda> takes \(o\)"):
        trainer(loss=lambda o: o.mean())
    with pytest.raises(DescriptionError, match=r"takes \(a, b, c\); use objective=f\(model, batch\)"):
        trainer(loss=lambda a, b, c: a.mean())


def test_a_loss_that_is_no_tensor() -> None:
    def mine(output: Tensor, target: Tensor) -> float:
        return F.cross_entropy(output, target).item()

    with pytest.raises(ObjectiveError, match=r"the loss mine returned a float, not a tensor; leave .item\(\) out"):
        trainer(loss=mine).fit()


def test_optimizers_made_of_something_else() -> None:
    with pytest.raises(DescriptionError, match=r"'generator' object has no attribute 'parameters'\); write optimizer="):
        trainer(loss=F.cross_entropy, optimizer=lambda model: torch.optim.Adam(model.parameters()))
    model = Lightning(4, 3)
    words = r"optimizer= is called as optimizer\(parameters\), and Lightning.configure_optimizers takes \(\); write optimizer="
    with pytest.raises(DescriptionError, match=words):
        trainer(model, loss=F.cross_entropy, optimizer=model.configure_optimizers)
    trainer(model, loss=F.cross_entropy, optimizer=functools.partial(torch.optim.Adam, lr=0.1)).fit()
    trainer(model, loss=F.cross_entropy, optimizer=torch.optim.Adam).fit()


def test_an_objective_that_goes_back_itself() -> None:
    def objective(model: nn.Module, batch: Any) -> Tensor:
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        return loss

    words = r"step 0 .*the graph of the loss was gone back through already. Leave backward\(\) to the Trainer, and return"
    with pytest.raises(ObjectiveError, match=words):
        trainer(objective=objective).fit()


def test_an_objective_that_uses_another_model() -> None:
    other = nn.Linear(4, 3)

    def objective(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(other(batch[0]), batch[1])

    words = "the loss depends on no parameter of the model: was it computed with another model than the one that the objective"
    with pytest.raises(ObjectiveError, match=words):
        trainer(objective=objective).fit()


def test_models_without_weights() -> None:
    lazy = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3))
    with pytest.raises(DescriptionError, match=r"0.weight is lazy: .* Call the model once, like model\(x\[:2\]\), and make the"):
        trainer(lazy, loss=F.cross_entropy)
    lazy(X[:2])
    trainer(lazy, loss=F.cross_entropy).fit()
    with pytest.raises(DescriptionError, match="weight is on the meta device and has no values"):
        trainer(nn.Linear(4, 3, device="meta"), loss=F.cross_entropy)
    with pytest.raises(DescriptionError, match="weight is lazy"):
        trainer({"a": nn.LazyLinear(3)}, loss=F.cross_entropy, optimizer=torch.optim.SGD)


def test_a_metric_that_raises_is_named() -> None:
    def missing(output: Tensor, target: Tensor) -> float:
        return dict[str, float]()["no"]

    with pytest.raises(KeyError) as caught:
        trainer(loss=F.cross_entropy, metrics={"mine": missing}).evaluate((X, Y))
    assert caught.value.__notes__ == ["(in the metric mine)"]
    with pytest.raises(ObjectiveError, match=r"data: metric mine failed on an output of float32 \(8, 3\) and a target of int64"):
        trainer(loss=F.cross_entropy, metrics={"mine": lambda output, target: output - target}).evaluate((X, Y))


def test_a_loss_that_returns_a_loss_is_not_told_how_it_counts() -> None:
    with pytest.warns(Notice, match="mine counts as a mean over samples"):

        def mine(output: Tensor, target: Tensor) -> Tensor:
            return F.cross_entropy(output, target)

        trainer(loss=mine).fit()
