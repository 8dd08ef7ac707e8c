"""unfreeze_at: parts of a model that begin to train at some epoch."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tiny
from instep import OneCycle, Trainer
from instep.errors import DescriptionError
from instep.optim.freeze import freeze
from tiny import CLASSES, FEATURES, TASKS

X, Y = TASKS[0].draw(48, seed=0, dtype=torch.float32)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8))
    model = nn.Sequential(base, nn.Linear(8, CLASSES))
    freeze(model, "0")
    return model


def make(model: nn.Module | None = None, **changes: Any) -> Trainer:
    return tiny.make(net() if model is None else model, **({"train": (X, Y)} | changes))


def test_a_part_trains_from_its_epoch_on() -> None:
    trainer = make(unfreeze_at={1: "0.0", 2: "0"}, schedule=OneCycle(max_lr=0.2))
    linear, norm = trainer.model[0]
    first, mean = linear.weight.detach().clone(), norm.running_mean.clone()
    moved: list[tuple[bool, bool]] = []
    for _ in trainer.updates():
        moved.append((not torch.equal(linear.weight, first), not torch.equal(norm.running_mean, mean)))
    assert moved == [(False, False)] * 3 + [(True, False)] * 3 + [(True, True)] * 3


def test_it_is_as_if_unfrozen_by_hand() -> None:
    whole = make(unfreeze_at={1: "0"})
    whole.fit()
    by_hand = make()
    for update in by_hand.updates():
        if update.step == 2:
            from instep.optim.freeze import unfreeze

            unfreeze(by_hand.model, "0")
    for a, b in zip(whole.model.state_dict().values(), by_hand.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_parameters_in_no_group_join_the_optimizer() -> None:
    model = net()
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    trainer = make(model, optimizer=optimizer, unfreeze_at={2: model[0]}, schedule=OneCycle(max_lr=0.2))
    updates = list(trainer.updates())
    assert [len(update.lrs) for update in updates] == [1] * 6 + [2] * 3
    assert all(update.lrs[0] == update.lrs[-1] for update in updates)
    assert optimizer.param_groups[1]["name"] == "unfrozen at epoch 2"
    assert len(optimizer.param_groups[1]["params"]) == 4


def test_names_are_kept_where_the_optimizer_has_them() -> None:
    model = net()
    optimizer = torch.optim.SGD(list(model[1].named_parameters()), lr=0.1)
    make(model, optimizer=optimizer, unfreeze_at={1: "0.0"}).fit()
    assert optimizer.param_groups[1]["param_names"] == ["0.0.weight", "0.0.bias"]


def test_the_plan_tells_what_is_frozen_and_until_when() -> None:
    text = repr(make(unfreeze_at={1: "0.0", 7: ["0.1"]}))
    assert "36 parameters, and 72 frozen" in text
    assert "0.0 at epoch 1; 0.1 at epoch 7" in text
    assert "0.1 at epoch 7, which a run of 3 epochs never comes to" in " ".join(text.split())


def test_it_is_part_of_the_description(tmp_path: Path) -> None:
    for _ in make(unfreeze_at={1: "0"}, folder=tmp_path / "run").updates():
        break
    with pytest.raises(DescriptionError, match="unfreeze_at"):
        make(unfreeze_at={2: "0"}, folder=tmp_path / "run").fit()


def scheduler(optimizer: Any, total_steps: int) -> Any:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=total_steps)


def test_torchs_own_one_cycle_wants_the_groups_from_the_start() -> None:
    model = net()
    head_alone = torch.optim.SGD(model[1].parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(DescriptionError, match=r"0\.0\.weight is in no group .* torch's own schedulers cannot take in groups"):
        make(model, optimizer=head_alone, unfreeze_at={1: "0"}, schedule=scheduler)
    make(unfreeze_at={1: "0"}, schedule=scheduler).fit()


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("0", "unfreeze_at='0' does not say when; use a mapping from epochs to parts"),
        ({0: "0"}, r"unfreeze_at=\{0: …\}: epochs are whole numbers, 1 or more"),
        ({"1": "0"}, r"unfreeze_at=\{'1': …\}: epochs are whole numbers"),
        ({1: "nose"}, "'nose' matches no module and no parameter"),
        ({1: "1"}, r"unfreeze_at=\{1: …\}: nothing in 1 is frozen then; freeze it before the run, freeze\(model, …\)\."),
        ({1: "0", 2: "0.0"}, r"unfreeze_at=\{2: …\}: nothing in 0\.0 is frozen then"),
    ],
)
def test_what_cannot_be_unfrozen(at: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        make(unfreeze_at=at)


def test_what_was_frozen_by_hand_is_not_ours_to_unfreeze() -> None:
    model = net()
    model[1].bias.requires_grad_(False)
    with pytest.raises(DescriptionError, match=r"\(requires_grad=False was set by hand there\)"):
        make(model, unfreeze_at={1: "1.bias"})


def test_lbfgs_cannot() -> None:
    model = net()
    with pytest.raises(DescriptionError, match="unfreeze_at= cannot be used with LBFGS"):
        make(model, optimizer=torch.optim.LBFGS(model.parameters()), unfreeze_at={1: "0"})


def test_a_batch_norm_that_will_train_is_checked_now() -> None:
    with pytest.raises(DescriptionError, match="has a micro-batch of one, and the model has BatchNorm"):
        make(unfreeze_at={1: "0"}, train=(X[:33], Y[:33]))
    make(train=(X[:33], Y[:33])).fit()  # it stays frozen


def test_with_several_optimizers_it_must_be_in_one() -> None:
    model = net()

    def objective(model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    weight, bias = model[1].parameters()
    optimizers = {"a": torch.optim.SGD([weight], lr=0.1), "b": torch.optim.SGD([bias], lr=0.1)}
    with pytest.raises(
        DescriptionError, match=r"0\.0\.weight is in the groups of no optimizer, and there are 2 that it could join"
    ):
        make(model, loss=None, objective={"a": objective, "b": objective}, optimizer=optimizers, unfreeze_at={1: "0"})


@pytest.mark.parametrize("look", [True, False])
def test_looking_does_not_wake_a_module_that_was_in_eval_mode(look: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
    model[1].eval()
    freeze(model, "1")
    make(model, valid=(X, Y) if look else None, unfreeze_at={1: "1"}).fit()
    assert not model[1].training
