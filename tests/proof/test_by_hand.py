"""Proofs of loops that people wrote themselves, on plain PyTorch pieces."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import instep
from instep.errors import DescriptionError
from instep.proof.result import Proof, Row
from proof import zoo
from proof.zoo import numbers, small


def test_a_plain_loss_splits() -> None:
    model = small()
    before = [p.clone() for p in model.parameters()]
    proof = instep.prove_update_cycle(model, F.cross_entropy, numbers(), cycles=(1, 2, 7, 64))
    assert [row.verdict for row in proof.rows] == ["exact", "exact", "exact", "does not apply"]
    assert all(torch.equal(p, q) and p.grad is None for p, q in zip(model.parameters(), before, strict=True))


def test_the_cause_is_named() -> None:
    def tokens(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        mask = batch[0] != 0
        return (F.cross_entropy(model(batch[0]), batch[1], reduction="none") * mask).sum() / mask.sum()

    def counted(model: nn.Module, batch: Any) -> instep.Loss:
        return instep.Loss(tokens(model, batch), (batch[0] != 0).sum())

    cause = instep.prove_update_cycle(zoo.Reader(), tokens, zoo.sentences(), cycles=(3,)).rows[0].causes[0]
    assert cause.name == "wrong-weight"
    assert cause.where.startswith("test_by_hand.py:")
    assert instep.prove_update_cycle(zoo.Reader(), counted, zoo.sentences(), cycles=(3,)).ok
    norm = instep.prove_update_cycle(small(nn.BatchNorm1d(8)), F.cross_entropy, numbers(), cycles=(2,), allow=["batchnorm"])
    assert norm.rows[0].causes[0].where == "1 (BatchNorm1d)"
    assert norm.ok


def test_a_piece_without_a_target_fails_in_words() -> None:
    def known(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1])

    def counted(model: nn.Module, batch: tuple[Tensor, Tensor]) -> instep.Loss:
        count = (batch[1] != -100).sum()
        return instep.Loss(F.cross_entropy(model(batch[0]), batch[1], reduction="sum") / count.clamp(min=1), count)

    x, y = numbers()
    y = torch.cat([torch.full((len(y) // 4,), -100), y[len(y) // 4 :]])
    proof = instep.prove_update_cycle(small(), known, (x, y), cycles=(2, 8))
    assert [row.verdict for row in proof.rows] == ["differs", "fails"]
    assert "A mean over nothing is nan" in proof.rows[1].meaning
    assert instep.prove_update_cycle(small(), counted, (x, y), cycles=(2, 8)).ok
    with pytest.raises(instep.errors.NonFiniteLoss):  # nothing to compare with: the whole batch has no finite loss
        instep.prove_update_cycle(small(), known, (x, torch.full_like(y, -100)), cycles=(2,))


def test_two_causes_do_not_claim_to_be_the_only_one() -> None:
    both = instep.prove_update_cycle(small(nn.BatchNorm1d(8), nn.Dropout(0.5)), F.cross_entropy, numbers(), cycles=(2,)).rows[0]
    assert [cause.name for cause in both.causes] == ["batchnorm", "draws"]
    assert all("and the other causes taken away" in cause.what for cause in both.causes)
    alone = instep.prove_update_cycle(small(nn.Dropout(0.5)), F.cross_entropy, numbers(), cycles=(2,)).rows[0]
    assert "with the draws held alike it is equal" in alone.causes[0].what


class Noise(nn.Module):
    """A generator: its only input is noise, so that with one value for every draw all samples are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, count: int) -> Tensor:
        made: Tensor = self.out(torch.randn(count, 4))
        return made


def test_allowed_draws_do_not_hide_a_wrong_weight() -> None:
    def some(model: nn.Module, batch: Tensor) -> Tensor:
        return torch.mean(model(len(batch))[batch[:, 0] > 0] ** 2)

    def every(model: nn.Module, batch: Tensor) -> Tensor:
        return torch.mean(model(len(batch)) ** 2)

    x = numbers()[0]
    wrong = instep.prove_update_cycle(Noise(), some, x, cycles=(2,), allow=["draws"])
    assert [cause.name for cause in wrong.rows[0].causes] == ["draws", "wrong-weight"]
    assert not wrong.ok
    right = instep.prove_update_cycle(Noise(), every, x, cycles=(2,), allow=["draws"])
    assert [cause.name for cause in right.rows[0].causes] == ["draws"]
    assert right.ok


def test_every_row_that_does_not_hold_says_so() -> None:
    rows = [Row(name, "", "differs", 1e-2, "First to differ: batch, in update 0.") for name in ("observe", "tune")]
    text = str(Proof((*rows, Row("resume", "", "differs", 0.0, "First to differ: opt/lr."))))
    assert "observe: First to differ" in text
    assert "tune: First to differ" in text
    assert "differs 0" not in text  # no number where what differs is no tensor


def loop(*, drop: float = 0.0, forget: bool = False, counts: bool = False, host: bool = False) -> Any:
    """What make() gives: an ordinary loop."""
    x, y = numbers()
    model = small(nn.Dropout(drop))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    made = [0]

    def step(number: int) -> Tensor:
        made[0] += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * (1 / made[0] if counts else 1.0) * (random.random() if host else 1.0)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    return step, {"model": model, "optimizer": optimizer} | ({} if forget else {"scheduler": scheduler})


def test_a_loop_that_saves_everything_resumes() -> None:
    proof = instep.prove_resume(loop, 6)
    assert [row.result for row in proof.rows] == ["bitwise"] * 3
    assert [row.arrangement for row in proof.rows] == [f"saved after update {i}, resumed" for i in (1, 3, 5)]


def test_what_was_forgotten_is_named() -> None:
    dropped = instep.prove_resume(lambda: loop(drop=0.3), 4, stops=[2]).rows[0]
    assert [cause.name for cause in dropped.causes] == ["unsaved-generator"]
    assert "save torch.get_rng_state()" in dropped.causes[0].fix
    assert "random.getstate()" in instep.prove_resume(lambda: loop(host=True), 4, stops=[2]).rows[0].causes[0].fix
    counting = instep.prove_resume(lambda: loop(counts=True), 4, stops=[2]).rows[0]
    assert [cause.name for cause in counting.causes] == ["unsaved-state"]
    assert counting.verdict == "differs"


def test_a_loop_that_does_not_repeat_itself_is_told() -> None:
    model = small()  # made once: the second loop goes on with what the first has trained
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = numbers()

    def step(number: int) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    proof = instep.prove_resume(lambda: (step, {"model": model, "optimizer": optimizer}), 3, stops=[1])
    assert [cause.name for cause in proof.rows[0].causes] == ["unsteady-loop"]


def test_wrong_use_is_told() -> None:
    with pytest.raises(DescriptionError, match="steps=1 must be a whole number, 2 or more"):
        instep.prove_resume(loop, 1)
    with pytest.raises(DescriptionError, match=r"it can stop after 1 to 3"):
        instep.prove_resume(loop, 4, stops=[4])
    with pytest.raises(DescriptionError, match=r"it has to give \(step, state\)"):
        instep.prove_resume(lambda: 3, 4)  # type: ignore[arg-type, return-value]
    with pytest.raises(DescriptionError, match="which has no state_dict"):
        instep.prove_resume(lambda: (print, {"count": 3}), 4)
    with pytest.raises(DescriptionError, match="use whole numbers of micro-batches"):
        instep.prove_update_cycle(small(), F.cross_entropy, numbers(), cycles=(0,))
    with pytest.raises(DescriptionError, match="model is a int"):
        instep.prove_update_cycle(3, F.cross_entropy, numbers())  # type: ignore[arg-type]
