"""The proof itself: what it refuses, what it shows, and that it leaves nothing behind."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import instep
from instep import Trainer
from instep.cli import main
from instep.errors import DescriptionError
from instep.proof.causes import nondeterministic_operations
from instep.proof.result import Cause, Proof, Row
from instep.proof.subject import rounds_to
from proof import zoo

ZOO = str(zoo.__file__)


def test_the_command_tries_all_promises_in_real_processes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A real kill, real torchrun processes, real workers."""
    found = tmp_path / "proof.json"
    assert main(["prove", f"{ZOO}:augmented", "--steps", "5", "--json", str(found)]) == 0
    record = json.loads(found.read_text())
    verdicts = {row["promise"]: row["verdict"] for row in record["rows"]}
    assert verdicts.pop("overflow") in ("bitwise", "exact")
    bitwise = ("repeat", "interrupt", "load", "observe", "tune", "plain")
    assert verdicts == {**dict.fromkeys(bitwise, "bitwise"), "split": "exact", "spread": "exact"}
    assert record["ok"] is True
    said = capfd.readouterr()
    assert "kill -9 in update 3, then resumed" in said.out
    assert "num_workers=2, beside 0" in said.out
    assert said.out.rstrip().endswith("held.")
    assert "bitwise\n" in said.err  # a line for each promise, as it was tried
    assert "\x1b" not in said.err


def test_a_limit_fails_until_it_is_allowed(capfd: pytest.CaptureFixture[str]) -> None:
    prove = instep.prove(zoo.dropout, steps=2, promises=["split"])
    assert not prove.ok
    assert prove["split"].causes[0].is_limit
    assert "--allow draws" in str(prove)
    allowed = instep.prove(zoo.dropout, steps=2, promises=["split"], allow=["draws"])
    assert allowed.ok
    assert allowed["split"].verdict == "differs"
    assert "What differs in split was allowed." in str(allowed)
    assert "a limit, allowed" in str(allowed)


def test_a_limit_of_one_objective_does_not_hide_a_mistake_of_the_next() -> None:
    """The first draws, which was allowed; the second is a mean over fewer samples than are counted."""
    proof = instep.prove(two_objectives, steps=1, promises=["split"], allow=["draws"])
    assert [cause.name for cause in proof["split"].causes] == ["draws", "wrong-weight"]
    assert not proof.ok


def two_objectives() -> Trainer:
    models = {"a": zoo.small(nn.Dropout(0.5)), "b": zoo.small()}

    def known(model: Any, batch: Any) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(model["b"](x[y != 0]), y[y != 0])

    return Trainer(
        models,
        objective={"a": lambda model, batch: nn.functional.cross_entropy(model["a"](batch[0]), batch[1]), "b": known},
        optimizer={name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in models.items()},
        train=zoo.numbers(),
        batch_size=12,
        epochs=1,
        progress=False,
    )


def test_the_command_fails_where_something_differs(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", f"{ZOO}:token_mean", "--steps", "1", "--promises", "split"]) == 1
    said = capfd.readouterr().out
    assert "wrong-weight, in zoo.py:" in said
    assert "return Loss(value, count=(batch[0] != 0).sum())" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps", "0"], "must be a whole number, 1 or more"),
        (["--promises", "spit"], "no promise is called 'spit'; there are repeat, split, interrupt"),
        (["--allow", "wrong-weight"], "is no limit that can be allowed; there are draws, batchnorm"),
        (["--json", "no/such/place.json"], "there is no folder"),
        (["--stepps", "3"], "did you mean --steps"),
    ],
)
def test_wrong_use_is_told(options: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", f"{ZOO}:mlp", *options]) == 2
    assert words in capfd.readouterr().err.replace("\n", " ")


def test_what_is_no_build_is_refused() -> None:
    with pytest.raises(DescriptionError, match="build is a int; pass a function"):
        instep.prove(3)  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match=r"returned a int; it has to return an instep.Trainer"):
        instep.prove(lambda: 3)
    made = zoo.mlp()
    with pytest.raises(DescriptionError, match="returned a Trainer that was made before"):
        instep.prove(lambda: made)


def test_a_proof_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(7)
    before, threads, dtype = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()

    def build() -> Trainer:
        model = zoo.small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return Trainer(
            model, loss=nn.functional.cross_entropy, optimizer=optimizer, train=zoo.numbers(), epochs=2, folder="runs/x"
        )

    assert instep.prove(build, steps=2, promises=["split", "observe"]).ok
    assert list(tmp_path.iterdir()) == []
    assert torch.equal(before, torch.get_rng_state())
    assert (threads, dtype) == (torch.get_num_threads(), torch.get_default_dtype())


def test_a_build_that_trains_another_trainer_first_is_left_alone() -> None:
    def build() -> Trainer:
        first = zoo.mlp()
        first.fit()
        assert first.total_steps == 9  # its own
        return zoo.trainer(first.model, zoo.numbers())

    proof = instep.prove(build, steps=2, promises=["split", "plain", "spread"])
    assert proof["split"].verdict == "exact"
    assert proof["plain"].verdict == "bitwise"
    assert proof["spread"].result == "not tried"
    assert "put it into a file" in proof["spread"].meaning


def test_float64_is_said_to_be_impossible_where_it_is() -> None:
    class Narrow(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.float()

    row = instep.prove(lambda: zoo.trainer(zoo.small(Narrow()), zoo.numbers()), steps=2, promises=["split"])["split"]
    assert (row.verdict, row.bound, list(row.measured)) == ("exact", 1e-5, ["float32"])
    assert "float64 is not possible here" in row.meaning


def test_gradients_that_are_noise_are_named() -> None:
    """A bias before a norm has the gradient 0, and what is computed of it is rounding."""
    model = nn.Sequential(nn.Linear(zoo.FEATURES, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, zoo.CLASSES))

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.shift = model, nn.Parameter(torch.zeros(1))

        def forward(self, x: Any) -> Any:
            hidden = self.model[0](x) + self.shift  # the same for all features, which the norm takes away
            return self.model[3](self.model[2](self.model[1](hidden)))

    proof = instep.prove_update_cycle(Shifted(), nn.functional.cross_entropy, zoo.numbers(), cycles=(2,))
    assert proof.ok
    assert proof.rows[0].noise == ("shift",)
    assert "shift: gradient is rounding noise" in proof.rows[0].meaning


def test_a_proof_as_text_and_html() -> None:
    cause = Cause("clock", "it asks for the <time>.", "do not.", "a.py:3")
    proof = Proof((Row("repeat", "twice", "differs", 0.021, "First.", (cause,)), Row("load", "", "does not apply")), "mine")
    text = proof.text(width=60)
    assert "differs 2e-2" in text
    assert "cause   clock, in a.py:3" in text
    assert text.rstrip().endswith("not ok: repeat.")
    assert "&lt;time&gt;" in proof._repr_html_()
    assert repr(proof) == "Proof(ok=False, repeat: differs 2e-2, load: does not apply)"
    with pytest.raises(KeyError):
        proof["split"]
    assert [rounds_to(x) for x in (3.2e-8, 0.0, 0.31, 12.0, math.inf)] == ["3e-8", "0", "3e-1", "1e1", "inf"]


def test_what_torch_calls_nondeterministic_is_named() -> None:
    place = torch.tensor([0, 1])
    assert nondeterministic_operations(lambda: torch.zeros(3).put_(place, torch.ones(2))) == ["put_"]
    assert nondeterministic_operations(lambda: torch.zeros(3).add_(1)) == []
    assert not torch.are_deterministic_algorithms_enabled()
