"""Several models, optimizers and objectives that take turns in every update."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from instep import Loss, OneCycle, Trainer, keys
from instep.data import Order
from instep.errors import DescriptionError, NonFiniteLoss, ObjectiveError
from tiny import FEATURES, TASKS

X, Y = TASKS[0].draw(24, seed=0, dtype=torch.float32)


def models() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {"g": nn.Linear(3, FEATURES), "d": nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 1))}


def judging(models: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    fake = models["g"](torch.randn(len(batch[0]), 3))
    return F.softplus(-models["d"](batch[0])).mean() + F.softplus(models["d"](fake)).mean()


def fooling(models: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.softplus(-models["d"](models["g"](torch.randn(len(batch[0]), 3)))).mean()


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def make(**changes: Any) -> Trainer:
    arguments: dict[str, Any] = {
        "model": models(),
        "objective": {"d": judging, "g": fooling},
        "optimizer": {"g": sgd, "d": adam},
        "train": (X, Y),
        "epochs": 2,
        "batch_size": 8,
        "log_every": 1,
        "progress": False,
    }
    return Trainer(**(arguments | changes))


@pytest.mark.parametrize("every", [1, 2])
def test_it_is_the_plain_loop_bit_for_bit(every: int) -> None:
    trainer = make(update_every={"g": every}, clip_norm={"d": 0.1})
    losses: dict[str, list[float]] = {"d": [], "g": []}
    for update in trainer.updates():
        for name, loss in update.losses.items():
            losses[name].append(loss.item())

    plain = models()
    optimizer_d, optimizer_g = adam(plain["d"].parameters()), sgd(plain["g"].parameters())
    expected: dict[str, list[float]] = {"d": [], "g": []}
    step = 0
    for epoch in range(2):
        for places in torch.from_numpy(Order(24, seed=0, epoch=epoch)[:].copy()).split(8):
            keys.seed_all(keys.for_step(0, step))
            optimizer_d.zero_grad()
            loss = judging(plain, (X[places], Y[places]))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain["d"].parameters(), 0.1)
            optimizer_d.step()
            expected["d"].append(loss.item())
            if (step + 1) % every == 0:
                keys.seed_all(keys.for_step(0, step, turn=1))
                optimizer_g.zero_grad()
                loss = fooling(plain, (X[places], Y[places]))
                loss.backward()
                optimizer_g.step()
                expected["g"].append(loss.item())
            step += 1
    assert losses == expected
    for name, model in plain.items():
        for a, b in zip(model.parameters(), trainer.model[name].parameters(), strict=True):
            assert torch.equal(a, b)


def test_each_backward_touches_only_its_own_parameters() -> None:
    seen: list[tuple[str, bool, bool]] = []

    def watching(name: str, objective: Any) -> Any:
        def watched(models: Any, batch: Any) -> Any:
            seen.append((name, models["g"].weight.requires_grad, models["d"][0].weight.requires_grad))
            return objective(models, batch)

        return watched

    trainer = make(objective={"d": watching("d", judging), "g": watching("g", fooling)}, max_steps=1)
    trainer.model["g"].bias.requires_grad_(False)  # frozen by hand: nobody switches it on
    trainer.fit()
    assert seen == [("d", False, True), ("g", True, False)]
    assert all(p.requires_grad for p in trainer.model["d"].parameters())
    assert [p.requires_grad for p in trainer.model["g"].parameters()] == [True, False]
    assert trainer.model["g"].weight.grad.abs().sum() > 0  # through the other model


def test_gradients_are_switched_back_when_an_objective_fails() -> None:
    def failing(models: Any, batch: Any) -> Tensor:
        raise ZeroDivisionError

    trainer = make(objective={"d": judging, "g": failing})
    with pytest.raises(ZeroDivisionError):
        trainer.fit()
    assert all(p.requires_grad for p in trainer.model.parameters())


def test_updates_history_and_evaluations_say_names() -> None:
    trainer = make(update_every={"g": 3}, valid=(X[:9], Y[:9]), schedule={"g": OneCycle(max_lr=0.2)}, l2={"g": 0.1}, log_every=3)
    updates = list(trainer.updates())
    assert [list(update.losses) for update in updates] == [["d"], ["d"], ["d", "g"]] * 2
    assert torch.equal(updates[0].loss, updates[0].losses["d"])
    row = trainer.history.updates[0]
    assert {"loss/d", "loss/g", "lr/d", "lr/g", "penalty/g", "loss"} < set(row)
    assert "penalty/d" not in row
    assert row["loss"] == row["loss/d"] == pytest.approx(sum(float(u.loss) for u in updates[:3]) / 3)
    evaluation = trainer.history.evaluations[-1]
    assert {"train/d/loss", "train/g/loss", "valid/d/loss", "valid/g/loss"} < set(evaluation)
    assert "train/loss" not in evaluation
    assert trainer.history.best is None  # nobody said which loss the run goes by


def test_a_schedule_goes_by_the_players_own_steps() -> None:
    trainer = make(update_every={"g": 3}, schedule=OneCycle(max_lr=0.2))
    lrs = [update.by_objective["g"].lr for update in trainer.updates() if "g" in update.by_objective]
    alone = OneCycle(max_lr=0.2).curve(2, 0.2)
    assert lrs == [alone(0), alone(1)]


def test_a_number_can_be_monitored() -> None:
    trainer = make(valid=(X, Y), monitor="valid/g/loss", patience=5, restore_best=True)
    assert trainer.fit().best is not None
    with pytest.raises(DescriptionError, match="patience=2 needs one number to go by, and there are valid/d/loss, valid/g/loss"):
        make(valid=(X, Y), patience=2)
    with pytest.raises(DescriptionError, match="restore_best=True needs one number to go by"):
        make(valid=(X, Y), restore_best=True)
    with pytest.raises(DescriptionError, match="monitor='valid/loss' is no number of an evaluation; there will be valid/d/loss"):
        make(valid=(X, Y), monitor="valid/loss")


def test_metrics_are_for_the_objectives_that_give_outputs() -> None:
    def with_output(models: Any, batch: tuple[Tensor, Tensor]) -> Loss:
        output = models["d"](batch[0])
        return Loss(judging(models, batch), len(batch[0]), output, torch.ones_like(output))

    trainer = make(objective={"d": with_output, "g": fooling}, valid=(X, Y), metrics="accuracy")
    assert list(trainer.evaluate()) == ["valid/d/loss", "valid/d/accuracy", "valid/g/loss"]
    with pytest.raises(ObjectiveError, match="metrics need what a model gave, and no objective tells it"):
        make(valid=(X, Y), metrics="accuracy").evaluate()


def test_one_model_may_have_several_optimizers() -> None:
    model = nn.Linear(FEATURES, 4)

    def objective(model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    optimizers = {"weight": sgd([model.weight]), "bias": torch.optim.LBFGS([model.bias], max_iter=2)}
    trainer = make(model=model, objective={"weight": objective, "bias": objective}, optimizer=optimizers)
    history = trainer.fit()
    assert history.updates[-1]["loss/bias"] < history.updates[0]["loss/bias"]
    assert trainer.optimizer == optimizers
    assert trainer.predict(X).shape == (24, 4)


def test_a_dry_run_leaves_no_trace() -> None:
    trainer, twin = make(ema=0.5), make(ema=0.5)
    trainer.dry_run()
    trainer.fit()
    twin.fit()
    for a, b in zip(trainer.model.parameters(), twin.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_non_finite_loss_names_the_objective() -> None:
    def broken(models: Any, batch: Any) -> Tensor:
        return fooling(models, batch) * float("nan")

    with pytest.raises(NonFiniteLoss, match=r"step 0 \(epoch 0, batch 0, objective g\): the loss"):
        make(objective={"d": judging, "g": broken}).fit()


def test_the_plan_and_the_folder_know_all(tmp_path: Path) -> None:
    trainer = make(update_every={"g": 2}, schedule={"g": OneCycle(max_lr=0.2)}, folder=tmp_path / "run")
    text = repr(trainer)
    for words in ("g: Linear, d: Sequential", "optimizer d  Adam", "optimizer g  SGD, lr 0.1, every 2 updates", "schedule g"):
        assert words in text
    trainer.fit()
    described = trainer.run.describe()
    assert described["optimizer"]["d"]["class"] == "Adam"
    assert described["settings"]["update_every"] == {"g": 2}
    with pytest.raises(DescriptionError, match="every"):
        make(update_every={"g": 3}, folder=tmp_path / "run").fit()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": adam}, "objective= has the names 'd', 'g'; pass an optimizer for each"),
        ({"optimizer": {"d": adam}}, "objective= has the names 'd', 'g', optimizer= has 'd'; they must be the same ones"),
        ({"objective": judging}, "optimizer= has the names 'g', 'd', and objective= has none"),
        ({"objective": {}}, r"objective=\{\} holds no objective"),
        ({"objective": {"d": 3, "g": fooling}}, "objective=3 cannot be called"),
        ({"objective": {"d/x": judging, "g": fooling}}, "objective= has the name 'd/x'; use a word without \"/\""),
        ({"objective": {"ema": judging, "g": fooling}}, "objective= has the name 'ema'"),
        ({"loss": F.mse_loss}, "loss= and objective= both say what is minimised"),
        ({"model": {}}, r"model=\{\} holds no model"),
        ({"model": {"g": 3}}, r"model\['g'\] is a int; pass a torch\.nn\.Module"),
        ({"model": {"train": nn.Linear(1, 1)}}, "model= has a name that cannot be used: .*train.*; use another one"),
        ({"model": 3}, r"model is a int; pass a torch\.nn\.Module, or several by name"),
        ({"optimizer": {"d": adam, "g": 3}}, "optimizer is a int; pass an optimizer"),
        (
            {"model": nn.ModuleDict({"x": nn.Linear(1, 1)})},
            r"optimizer\['d'\] is a function of the parameters, and there is no model 'd'",
        ),
        ({"update_every": {"e": 2}}, "update_every= has the name 'e', which no objective has; there are 'd', 'g'"),
        ({"update_every": {"g": 0}}, r"update_every\['g'\]=0 must be a whole number, 1 or more"),
        ({"update_every": {"g": None}}, r"update_every\['g'\]=None must be a whole number"),
        ({"update_every": {"g": 2, "d": 2}}, "leaves updates in which no objective is due"),
        ({"update_every": 5}, "update_every=5 is for several objectives by name"),
        ({"schedule": {"x": None}}, "schedule= has the name 'x', which no objective has"),
        ({"clip_norm": {"x": 1.0}}, "clip_norm= has the name 'x', which no objective has"),
    ],
)
def test_names_that_do_not_match(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        make(**changes)


def test_every_is_for_several() -> None:
    model = nn.Linear(FEATURES, 4)
    with pytest.raises(DescriptionError, match=r"every=.* is for several objectives by name"):
        Trainer(model, loss=F.cross_entropy, optimizer=sgd, train=(X, Y), epochs=1, update_every={"g": 2})


def test_predictions_are_of_one_model() -> None:
    with pytest.raises(DescriptionError, match="does not know which of several models is meant"):
        make().predict(X)
