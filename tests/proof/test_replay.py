"""replay(): any step of a run again, from any of its checkpoints, bit for bit, and nothing of the run is touched."""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import instep
from instep import Loss, Trainer
from instep.errors import ChangedRun, DescriptionError, NonFiniteLoss
from instep.run.entry import checkpoints_in
from tiny import X, Y, make, net

POISONED = 37  # a sample


def poisoned() -> tuple[Tensor, Tensor]:
    x = X.clone()
    x[POISONED, 1] = math.nan
    return x, Y


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Watched:
    """What a run had in hand at each of its updates: weights before, batch indices, loss, gradients."""

    def __init__(self, trainer: Trainer) -> None:
        self.before: list[Tensor] = []
        self.losses: list[float] = []
        self.gradients: list[Tensor] = []
        before = nn.utils.parameters_to_vector(trainer.model.parameters()).detach().clone()
        for update in trainer.updates():
            self.before.append(before)
            self.losses.append(float(update.loss))
            self.gradients.append(torch.cat([p.grad.flatten() for p in trainer.model.parameters()]).clone())
            before = nn.utils.parameters_to_vector(trainer.model.parameters()).detach().clone()
        self.after = [*self.before[1:], before]


def assert_same_update(found: instep.Replay, seen: Watched, step: int) -> None:
    assert found.step == step
    assert found.loss == seen.losses[step]
    assert torch.equal(nn.utils.parameters_to_vector(found.model.parameters()), seen.after[step])
    gradient = torch.cat([p.grad.flatten() for p in found.model.parameters()])
    assert torch.equal(gradient, seen.gradients[step])
    norms = [(one.weight, one.change) for one in found.last.parameters]
    sizes = [p.numel() for p in found.model.parameters()]
    expected = zip(seen.before[step].split(sizes), seen.after[step].split(sizes), strict=True)
    torch.testing.assert_close(norms, [(float(old.norm()), float((new - old).norm())) for old, new in expected])


# --- A poisoned sample at a known step


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run that stops on a loss that is nan, with checkpoints from before."""
    trainer = make(train=poisoned(), folder=tmp_path / "run", batch_size=5, checkpoint_every=1, keep=None, seed=1, log_every=1)
    with pytest.raises(NonFiniteLoss) as caught:
        trainer.fit()
    assert caught.value.step == trainer.step
    return tmp_path / "run"


def test_a_poisoned_sample_is_replayed_to_from_every_checkpoint(stopped: Path) -> None:
    build = lambda: make(train=poisoned(), batch_size=5, seed=1, checkpoint_every=1, keep=None, log_every=1)  # noqa: E731
    there = sorted((stopped / "checkpoints").glob("step-*"))
    step = len(there)
    assert step > 3
    for left in range(step, -1, -1):
        before = files(stopped)
        found = instep.replay(stopped, build, step=step, anomaly=left % 2 == 0)
        assert files(stopped) == before
        assert (found.step, found.start.checkpoint, math.isnan(found.loss)) == (step, left or None, True)
        assert POISONED in found.samples.tolist()
        assert found.last.nonfinite[0] == f"Sample {POISONED} of train: feature 1 of column 0 is nan."
        assert found.update is None
        assert str(found.operation) == ("column 0 of the batch holds nan" if left % 2 == 0 else "None")
        assert found.checked.verdict == ("bitwise" if left < step else "nothing")
        if left:
            shutil.rmtree(there[left - 1])
    assert "so the replay begins at the start" in " ".join(str(found).split())


def test_an_update_that_spoils_the_weights_is_found_from_later_steps(tmp_path: Path) -> None:
    """A gradient that nobody measured: the next loss is nan, though its batch is fine."""
    x = X.clone()
    x[11, 0] = 9

    def length(model: nn.Module, batch: Any) -> Loss:
        out = model(batch[0]) * (batch[0][:, :1] != 9)
        return Loss(out.square().sum(1).sqrt().mean(), len(out))  # of 0 it has no derivative

    def build(**changes: Any) -> Trainer:
        return make(loss=None, objective=length, train=(x, Y), batch_size=5, **changes)

    trainer = build(folder=tmp_path / "run")
    with pytest.raises(NonFiniteLoss) as caught:
        trainer.fit()
    assert "an update before spoilt them" in str(caught.value)
    assert caught.value.step is not None
    found = instep.replay(tmp_path / "run", build, step=caught.value.step, anomaly=True)
    assert found.step == caught.value.step - 1
    assert 11 in found.samples.tolist()
    assert found.notes[0].endswith(f"spoilt the weights, before step {caught.value.step}: this one is shown.")
    assert found.operation is not None
    assert next((one.name, one.phase) for one in found.operation.chain()) == ("SqrtBackward0 (div)", "backward")
    assert found.operation.chain()[0].line is not None
    assert "gradient of 0.weight: 48 of 48" in found.last.nonfinite
    assert str(found.operation.chain()[0].line).endswith("# of 0 it has no derivative")


# --- As the run was


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index] + 0.1 * torch.randn(X.shape[1]), Y[index]


def dropping() -> nn.Module:
    return nn.Sequential(net(), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 4))


def everything(**changes: Any) -> Trainer:
    """Dropout, BatchNorm, augmentation, a schedule that goes by evaluations, an average, AdamW."""
    torch.manual_seed(3)
    model = dropping()
    arguments: dict[str, Any] = {
        "optimizer": torch.optim.AdamW(model.parameters(), lr=0.01),
        "train": Augmented(),
        "valid": (X[:20], Y[:20]),
        "schedule": instep.schedules.Plateau(patience=0, factor=0.5),
        "ema": 0.9,
        "log_every": 2,
        "evaluate_every": 3,
        "checkpoint_every": 5,
        "keep": None,
        "drop_last": True,
        "epochs": 5,
    }
    return make(model, **(arguments | changes))


@pytest.mark.parametrize(
    "changes",
    [{"num_workers": 2}, {"update_cycle": 3}, {"micro_batch_size": 5, "clip_norm": 0.1}],
    ids=lambda one: next(iter(one)),
)
def test_a_replay_is_bitwise_the_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    seen = Watched(everything(folder=tmp_path / "run", **changes))
    before = files(tmp_path / "run")
    there = checkpoints_in(tmp_path / "run")
    assert {5, 10, 15} <= set(there)
    for step in (1, 7, 14):
        found = instep.replay(tmp_path / "run", lambda: everything(**changes), step=step)
        assert found.start.checkpoint == max((one for one in there if one <= step), default=None)
        assert found.checked.verdict == "bitwise", found.checked
        assert_same_update(found, seen, step)
    assert files(tmp_path / "run") == before


def test_several_updates_are_shown_one_by_one(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path / "run", batch_size=10, log_every=1)
    losses = [float(update.loss) for update in trainer.updates()]
    found = instep.replay(tmp_path / "run", make_tens, step=3, to=6)
    assert [one.step for one in found.updates] == [3, 4, 5, 6]
    assert [one.loss for one in found.updates] == losses[3:7]
    rows = [line.split() for line in str(found).splitlines()]
    assert [row[0] for row in rows if len(row) > 4 and row[0] in "3456"] == ["3", "4", "5", "6"]


def make_tens() -> Trainer:
    return make(batch_size=10, log_every=1)


@pytest.mark.filterwarnings("ignore:train cannot say where it stands")
def test_a_stream_is_read_again(tmp_path: Path) -> None:
    class Samples:
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            yield from zip(X, Y, strict=True)

        def __len__(self) -> int:
            return len(X)

    seen = Watched(make(train=Samples(), folder=tmp_path / "run", checkpoint_every=3, keep=None))
    found = instep.replay(tmp_path / "run", lambda: make(train=Samples(), checkpoint_every=3, keep=None), step=7)
    assert found.start.checkpoint == 6
    assert_same_update(found, seen, 7)


def test_two_models_take_turns_as_they_did(tmp_path: Path) -> None:
    def build(folder: Path | None = None) -> Trainer:
        torch.manual_seed(0)
        g, d = nn.Linear(2, 6), nn.Linear(6, 1)
        return Trainer(
            {"g": g, "d": d},
            objective={
                "d": lambda m, b: (m["d"](b[0]) - m["d"](m["g"](torch.randn(len(b[0]), 2)))).square().mean(),
                "g": lambda m, b: -m["d"](m["g"](torch.randn(len(b[0]), 2))).mean().tanh(),
            },
            optimizer={"d": torch.optim.SGD(d.parameters(), lr=0.01), "g": torch.optim.SGD(g.parameters(), lr=0.01)},
            update_every={"g": 2},
            train=(X, Y),
            epochs=2,
            batch_size=10,
            folder=folder,
            progress=False,
            checkpoint_every=4,
            log_every=1,
        )

    trainer = build(tmp_path / "run")
    trainer.fit()
    found = instep.replay(tmp_path / "run", build, step=9)
    assert found.checked.verdict == "bitwise"
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value)
    assert found.update is not None
    assert set(found.update.losses) == {"d", "g"}


def test_weights_to_begin_with_are_those_of_init(tmp_path: Path) -> None:
    instep.save_model(net(5), tmp_path / "begin.safetensors")
    begin: dict[str, Any] = {"init": tmp_path / "begin.safetensors", "folder": tmp_path / "run", "checkpoint_every": 9}
    seen = Watched(make(**begin))
    found = instep.replay(tmp_path / "run", lambda: make(**begin), step=2)
    assert found.start.checkpoint is None
    assert_same_update(found, seen, 2)


# --- What is not as it was


def test_a_damaged_checkpoint_is_passed_over_and_said(tmp_path: Path) -> None:
    seen = Watched(make(folder=tmp_path / "run", checkpoint_every=3, keep=None))
    (tmp_path / "run" / "checkpoints" / "step-00000006" / "model.safetensors").write_bytes(b"torn")
    found = instep.replay(tmp_path / "run", lambda: make(checkpoint_every=3, keep=None), step=7)
    assert found.start.checkpoint == 3
    assert "step-00000006 is damaged" in found.start.reasons[0]
    assert found.start.reasons[0].endswith("so an earlier one is used.")
    assert_same_update(found, seen, 7)


def test_a_changed_description_is_refused_with_the_list(tmp_path: Path) -> None:
    make(folder=tmp_path / "run").fit()
    words = (
        r"holds a run with another description \(before -> now\):\n  settings\.batch_size: 16 -> 10\n(.|\n)*"
        r"  data\.train: .*has other values\n.*A replay makes the updates of the run that was trained, so put this back as it was"
    )
    with pytest.raises(ChangedRun, match=words):
        instep.replay(tmp_path / "run", lambda: make(train=(X + 1, Y), batch_size=10), step=2)


def test_a_loop_that_changed_the_weights_itself_is_noticed(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path / "run", checkpoint_every=100, log_every=1)
    for update in trainer.updates():
        if update.step == 4:
            with torch.no_grad():
                next(trainer.model.parameters()).add_(0.1)
    found = instep.replay(tmp_path / "run", lambda: make(checkpoint_every=100, log_every=1), step=7)
    assert found.checked.verdict == "differs"
    assert found.checked.differences[0].step == 6  # the log counts updates that were made
    assert "warning: this replay is not what the run did." in str(found)
    assert "3 rows" not in str(found.checked)


@pytest.mark.parametrize(
    ("step", "to", "words"),
    [
        (12, None, r"has 12 updates, so its last step is 11, not 12\."),
        (-1, None, r"step=-1 is not a step; steps are whole numbers, the first update is 0\."),
        (5, 4, r"to=4 is before step=5; it is the last step to replay\."),
        (5, 12, r"to=12 is behind the last step of .*run, 11\."),
    ],
)
def test_a_step_that_is_none(tmp_path: Path, step: int, to: int | None, words: str) -> None:
    make(folder=tmp_path / "run").fit()
    with pytest.raises(DescriptionError, match=words):
        instep.replay(tmp_path / "run", make, step=step, to=to)


def test_what_cannot_be_replayed_is_said(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path / "run")
    trainer.fit()
    with pytest.raises(DescriptionError, match="this Trainer has trained already; pass a function that makes a new one"):
        instep.replay(tmp_path / "run", trainer, step=2)
    with pytest.raises(DescriptionError, match="build gave a NoneType; pass a function that returns the Trainer of the run"):
        instep.replay(tmp_path / "run", lambda: None, step=2)  # type: ignore[arg-type, return-value]
    with pytest.raises(DescriptionError, match="does not exist"):
        instep.replay(tmp_path / "none", make, step=2)
    patient: dict[str, Any] = {"valid": (X, Y), "optimizer": None, "patience": 1}
    model = net()
    patient["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.0)
    make(model, **patient, folder=tmp_path / "patient", epochs=9).fit()

    def build() -> Trainer:
        again = net()
        return make(again, **(patient | {"optimizer": torch.optim.SGD(again.parameters(), lr=0.0)}), epochs=9)

    with pytest.raises(DescriptionError, match=r"ended after 8 updates: valid/loss has not improved .*, before step 20"):
        instep.replay(tmp_path / "patient", build, step=20)


def test_an_update_that_fails_before_the_step_says_where(stopped: Path) -> None:
    build = lambda: make(train=poisoned(), batch_size=5, seed=1, checkpoint_every=1, keep=None, log_every=1)  # noqa: E731
    shutil.rmtree(stopped / "checkpoints")
    with pytest.raises(NonFiniteLoss, match=r"is nan; no step was made.* This is before step 25; replay it to step \d+ to look"):
        instep.replay(stopped, build, step=25)


def test_a_step_that_the_run_has_not_reached_is_said(tmp_path: Path) -> None:
    trainer = make(folder=tmp_path / "run")
    updates = trainer.updates()
    for update in updates:
        if update.step == 4:
            break
    updates.close()
    found = instep.replay(tmp_path / "run", make, step=6)
    assert found.notes == ("the files of the run go to step 5: what comes behind that is what it would do.",)


def test_a_run_in_cycles_is_refused(tmp_path: Path) -> None:
    def build(folder: Path | None = None) -> Trainer:
        return make(valid=(X, Y), folder=folder, epochs=1, optimizer=lambda p: torch.optim.SGD(p, lr=0.1))

    build(tmp_path / "run").fit_cycles(max_cycles=1, steps=20, repeats=1)
    with pytest.raises(DescriptionError, match=r"was trained in cycles by fit_cycles\(\), which cannot be replayed"):
        instep.replay(tmp_path / "run", build, step=1)


# --- What a run says that stops


def test_the_message_of_a_run_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteLoss) as caught:
        make(train=poisoned(), batch_size=5, folder=tmp_path / "a run").fit()
    step = caught.value.step
    command = f"instep replay '{tmp_path}/a run' --step {step} --anomaly --file FILE.py, where build() of FILE.py makes this"
    assert str(caught.value).endswith(f"is nan. To look at this update: {command} Trainer.")
    with pytest.raises(NonFiniteLoss) as caught:
        make(train=poisoned(), batch_size=5).fit()
    assert "replay" not in str(caught.value)
    assert caught.value.__notes__ == [
        "A run with a folder= can be replayed to this step, to look at it: `instep replay`, instep.replay()."
    ]


def test_shown_in_a_notebook(tmp_path: Path) -> None:
    make(folder=tmp_path / "run").fit()
    found = instep.replay(tmp_path / "run", make, step=3)
    assert found._repr_html_().startswith("<pre>")
    assert "gradient" in found._repr_html_()
