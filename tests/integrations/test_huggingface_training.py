"""Models of transformers: a split batch is the whole one, a killed run the whole one, and looking changes nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import hugging_face
from instep import Trainer, evaluating, load_model
from instep.errors import ObjectiveError

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
KINDS = ("gpt2", "bert", "vit", "t5")


def make(kind: str, *, dropout: float = 0.0, double: bool = False, **options: Any) -> Trainer:
    model, data = hugging_face.make(kind, dropout=dropout)
    if double:
        model.double()
    given: dict[str, Any] = {"batch_size": 5, "epochs": 2, "progress": False, "train": data} | options
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), **given)


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(one: torch.nn.Module, other: torch.nn.Module) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    assert not [name for name in ours if not torch.equal(ours[name], theirs[name])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_batch_gives_the_gradients_of_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In five pieces and in pieces of two, ragged last batch included; without a notice, since warnings are errors here."""
    hugging_face.keep_double(monkeypatch)
    whole, *others = (make(kind, double=True, **split) for split in ({}, {"update_cycle": 5}, {"micro_batch_size": 2}))
    for updates in zip(whole.updates(), *(other.updates() for other in others), strict=True):
        assert len({int(update.count) for update in updates}) == 1
        expected = {name: p.grad for name, p in whole.model.named_parameters() if p.grad is not None}
        largest = max(float(gradient.abs().max()) for gradient in expected.values())
        for other in others:
            found = {name: p.grad for name, p in other.model.named_parameters() if p.grad is not None}
            assert found.keys() == expected.keys()
            assert max(float((found[name] - expected[name]).abs().max()) for name in found) <= 1e-12 * largest


def test_their_float32_loss_splits_too() -> None:
    whole, split = make("gpt2"), make("gpt2", update_cycle=5)
    for _ in zip(whole.updates(), split.updates(), strict=True):
        pass
    for one, other in zip(whole.model.parameters(), split.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_the_counts_are_those_of_the_labels() -> None:
    """Written out: the next token is predicted, so the first of each sequence does not count; elsewhere it does."""
    for kind, first in (("gpt2", 1), ("bert", 0), ("t5", 0)):
        trainer = make(kind, batch_size=11, max_steps=1, epochs=None)
        labels = hugging_face.make(kind)[1]["labels"]
        assert [int(update.count) for update in trainer.updates()] == [int((labels[:, first:] != -100).sum())]
    assert [int(update.count) for update in make("vit", batch_size=11, epochs=1).updates()] == [11]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_goes_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    whole = make(kind, dropout=0.2, update_cycle=2)
    whole.fit()
    for stop in (1, 3, None):
        trainer = make(kind, dropout=0.2, update_cycle=2, folder=tmp_path)
        for update in trainer.updates():
            if update.step == stop:
                break
    assert trainer.resumed_from == 4
    assert_same(trainer.model, whole.model)


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_huggingface_training import make

trainer = make("t5", dropout=0.2, update_cycle=2, epochs=3, folder=Path({folder!r}), checkpoint_every=2)
for update in trainer.updates():
    if update.step == {kill} and trainer.resumed_from is None:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}
    script = KILLED.format(tests=str(here), folder=str(tmp_path / "run"), kill=4)
    codes = [
        subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False).returncode
        for _ in range(2)
    ]
    assert codes == [-signal.SIGKILL, 0]
    whole = make("t5", dropout=0.2, update_cycle=2, epochs=3)
    whole.fit()
    killed = make("t5", dropout=0.2, update_cycle=2, epochs=3, folder=tmp_path / "run")
    killed.fit()
    assert killed.step == whole.step == 9
    assert_same(killed.model, whole.model)


def test_gradient_checkpointing_gives_the_same_weights() -> None:
    """Recomputed in the backward, with the dropout of the forward."""
    for kind in ("gpt2", "t5"):
        plain, less_memory = (make(kind, dropout=0.2, update_cycle=2) for _ in range(2))
        less_memory.model.gradient_checkpointing_enable()
        assert less_memory.model.is_gradient_checkpointing
        plain.fit()
        less_memory.fit()
        assert_same(plain.model, less_memory.model)


def test_generating_between_updates_changes_nothing(tmp_path: Path) -> None:
    """Greedy and drawn, in train mode and in eval mode; and a resumed run does not see it either."""
    plain = make("gpt2", dropout=0.2)
    plain.fit()
    for stop in (2, None):
        trainer = make("gpt2", dropout=0.2, folder=tmp_path)
        prompt = torch.tensor([[1, 5, 6]])
        for update in trainer.updates():
            with evaluating(trainer.model):
                greedy = trainer.model.generate(prompt, max_new_tokens=4, do_sample=False, attention_mask=torch.ones_like(prompt))
            trainer.model.generate(prompt, max_new_tokens=3, do_sample=True, attention_mask=torch.ones_like(prompt))
            assert trainer.model.training
            if update.step == stop:
                break
    assert greedy.shape[1] > 3
    assert trainer.resumed_from == 3
    assert_same(trainer.model, plain.model)


def test_metrics_see_tokens_as_the_loss_does() -> None:
    metrics = ("accuracy", "perplexity")
    for kind, first in (("gpt2", 1), ("bert", 0), ("t5", 0)):
        model, data = hugging_face.make(kind)
        trainer = make(kind, valid=data, metrics=metrics, batch_size=4, epochs=1)
        found = trainer.evaluate()
        with evaluating(model):
            logits, labels = model(**data).logits[:, : hugging_face.LENGTH - first], data["labels"][:, first:]
        counts = labels != -100
        right = (logits.argmax(-1) == labels)[counts].double().mean()
        assert found["valid/accuracy"] == pytest.approx(float(right), abs=1e-12)
        assert found["valid/perplexity"] == pytest.approx(float(torch.exp(torch.tensor(found["valid/loss"]))), rel=1e-5)
    pictures = make("vit", valid=hugging_face.make("vit")[1], metrics="accuracy", epochs=1).evaluate()
    assert 0 <= pictures["valid/accuracy"] <= 1


def test_predictions_are_those_of_the_model() -> None:
    model, data = hugging_face.make("vit")
    found = make("vit", epochs=1).predict({"pixel_values": data["pixel_values"]})
    with evaluating(model):
        torch.testing.assert_close(found["logits"], model(pixel_values=data["pixel_values"]).logits)


def test_sequences_of_different_lengths_cannot_be_joined() -> None:
    from instep import data

    transformers = hugging_face.load()
    words = hugging_face.tokenizer()
    samples = [dict(words(text)) for text in hugging_face.sentences()]
    collate = transformers.DataCollatorForLanguageModeling(words, mlm=False)
    trainer = make("gpt2", train=data.source(samples, collate_fn=collate))
    found = trainer.predict(samples[:5])
    assert found["logits"].shape[:1] == (5,)
    with pytest.raises(ObjectiveError, match=r"logits of data .*shape \(5, \d, 23\).*padding=.max_length"):
        trainer.predict(samples)


FILE = """
import sys

sys.path.insert(0, {tests!r})
import hugging_face
import torch

from instep import Trainer, save_model


def build(out: str = "") -> Trainer:
    hugging_face.load()
    model, data = hugging_face.make("gpt2")
    model.double()
    return Trainer(
        model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), train=data, epochs=2, batch_size=5
    )
"""


def test_two_processes_count_the_tokens_of_both(tmp_path: Path) -> None:
    """Each has other tokens to count; together they make the update of one process."""
    script = tmp_path / "lm.py"
    script.write_text(FILE.format(tests=str(Path(hugging_face.__file__).parent)))
    found = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        command = [sys.executable, "-m", "instep", "train", str(script), "--folder", str(folder), "--processes", str(processes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        model, _ = hugging_face.make("gpt2")
        load_model(model.double(), folder)
        found.append(weights(model))
    for name, one in found[0].items():
        torch.testing.assert_close(found[1][name], one, rtol=1e-5, atol=1e-6)  # their loss is in float32
