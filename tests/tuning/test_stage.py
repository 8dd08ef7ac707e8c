"""A Trainer's own updates, rehearsed: its batches, its keys, its split; counted nowhere."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import OneCycle, Trainer
from instep.errors import DescriptionError
from instep.loop import accumulation, loss_counts, torch_losses, update
from instep.tuning.rehearsal import Rehearsal
from tiny import TASKS


class Watching(nn.Module):
    """Writes down what it sees and draws."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.seen: list[tuple[list[float], float]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((x[:, 0].tolist(), torch.rand(1).item()))
        return self.linear(x)  # type: ignore[no-any-return]


def trainer_of(**options: Any) -> Trainer:
    torch.manual_seed(0)
    model = Watching()
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 8, "progress": False, **options}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TASKS[0].draw(20, seed=0, dtype=torch.float32)
    return Trainer(model, loss=cross_entropy, optimizer=optimizer, train=data, **settings)


@pytest.mark.parametrize("options", [{}, {"update_cycle": 2}, {"drop_last": True}, {"micro_batch_size": 3}])
def test_a_rehearsal_from_a_step_on_is_what_the_run_will_do(options: dict[str, Any]) -> None:
    run = trainer_of(**options)
    losses = [float(update.loss) for update in run.updates()]
    rehearsed = trainer_of(**options)
    found = [float(done.loss) for done in itertools.islice(rehearsed.run.rehearse(0), len(losses))]
    assert found == losses
    assert rehearsed.model.seen == run.model.seen
    later = trainer_of(**options)
    list(itertools.islice(later.run.rehearse(4), 2))
    pieces = len(run.model.seen) // len(losses)
    assert later.model.seen[0] == run.model.seen[4 * pieces] or options == {"micro_batch_size": 3}


def test_it_has_no_end_and_counts_nothing() -> None:
    run = trainer_of()
    assert len(list(itertools.islice(run.run.rehearse(0), 20))) == 20
    assert run.step == 0
    assert not run.history.rows


def test_with_samples_each_update_is_one_micro_batch_of_so_many() -> None:
    run = trainer_of(update_cycle=4)
    for samples in (1, 7, 20):
        run.model.seen.clear()
        list(itertools.islice(run.run.rehearse(0, samples=samples), 4))
        assert [len(values) for values, _ in run.model.seen] == [samples] * 4


def test_the_schedule_is_not_asked() -> None:
    run = trainer_of(schedule=OneCycle(max_lr=1.0))
    run.optimizer.param_groups[0]["lr"] = 0.123
    next(run.run.rehearse(3))
    assert run.optimizer.param_groups[0]["lr"] == 0.123


def test_flags_of_the_run_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an accelerator the last update of a rehearsal may leave a flag that says: not finite."""
    for module in (accumulation, loss_counts, torch_losses, update):
        monkeypatch.setattr(module, "readable", lambda tensor: False)
    run = trainer_of()
    player = run.run.steppers[0]
    player.step = 5
    updates = run.run.rehearse(0)
    next(updates)
    assert player.cycle._unread == []
    updates.close()
    assert player.step == 5


def test_a_trainer_is_a_rehearsal() -> None:
    run: Rehearsal = trainer_of().run
    assert (run.batch_size, run.samples, run.step) == (8, 20, 0)


def test_several_optimizers_are_refused() -> None:
    model = nn.ModuleDict({"g": nn.Linear(6, 4), "d": nn.Linear(6, 4)})
    run = Trainer(
        model,
        objective=dict.fromkeys(("g", "d"), lambda model, batch: cross_entropy(model["g"](batch[0]), batch[1])),
        optimizer={name: torch.optim.SGD(part.parameters(), lr=0.1) for name, part in model.items()},
        train=TASKS[0].draw(20, seed=0, dtype=torch.float32),
        epochs=1,
        progress=False,
    )
    for find in (run.find_lr, run.find_batch_size):
        with pytest.raises(
            DescriptionError, match=r"the run has several optimizers \(a dict\), and a finder works on a run with one"
        ):
            find()
