"""Data sets and collators of Hugging Face, from the texts to the model, as people have them."""

from pathlib import Path
from typing import Any

import pytest
import torch

import hugging_face
from instep import Loss, Trainer, data
from instep.errors import DataError, DescriptionError

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def tokenised(count: int = 24, *, kind: str = "gpt2") -> Any:
    """With the texts still in it, and a column that nobody takes."""
    datasets = pytest.importorskip("datasets")
    words, texts = hugging_face.tokenizer(), hugging_face.sentences(count)
    columns: dict[str, Any] = {"text": texts, "idx": list(range(count)), **words(texts)}
    columns.pop("token_type_ids", None)
    if kind == "vit":
        pictures = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))
        columns = {"pixel_values": pictures.tolist(), "label": [number % 3 for number in range(count)], "text": texts}
    if kind == "t5":
        columns["labels"] = columns["input_ids"]
    return datasets.Dataset.from_dict(columns)


def make(kind: str, train: Any, **options: Any) -> Trainer:
    model, _ = hugging_face.make(kind, dropout=0.1)
    given: dict[str, Any] = {"epochs": 2, "batch_size": 5, "progress": False} | options
    return Trainer(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), train=train, **given)


def collators() -> dict[str, Any]:
    transformers = hugging_face.load()
    words = hugging_face.tokenizer()
    return {
        "gpt2": transformers.DataCollatorForLanguageModeling(words, mlm=False),
        "bert": transformers.DataCollatorForLanguageModeling(words, mlm=True, mlm_probability=0.5),
        "t5": transformers.DataCollatorForSeq2Seq(words),
    }


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def assert_same(one: Trainer, other: Trainer) -> None:
    ours, theirs = weights(one), weights(other)
    assert not [name for name in ours if not torch.equal(ours[name], theirs[name])]


def last(trainer: Trainer) -> dict[str, Any]:
    """The last row of the history, without the clock."""
    found = trainer.history.last
    assert found is not None
    return {name: value for name, value in found.items() if name != "clock"}


@pytest.mark.parametrize("kind", ["gpt2", "bert", "t5"])
def test_a_tokenised_data_set_with_its_collator(kind: str, tmp_path: Path) -> None:
    """Texts are left out; the masks of the masked model are the run's own, in workers and after a stop."""
    collate = collators()[kind]
    rows = tokenised(kind=kind)

    def made(**options: Any) -> Trainer:
        return make(kind, data.source(rows, collate_fn=collate), valid=tokenised(6, kind=kind), update_cycle=2, **options)

    whole = made()
    notes = " ".join(str(whole).split())
    assert "columns of train that the model does not take are left out: text, idx" in notes
    whole.fit()
    in_workers = made(num_workers=2)
    in_workers.fit()
    assert_same(in_workers, whole)
    for stop in (3, None):
        resumed = made(folder=tmp_path)
        for update in resumed.updates():
            if update.step == stop:
                break
    assert resumed.resumed_from == 4
    assert_same(resumed, whole)
    assert last(resumed) == last(whole)


def test_masked_language_modelling_draws_under_the_key_of_the_batch() -> None:
    """Another seed of the run masks other tokens; the collator's own seed is not used, and that is said."""
    transformers = hugging_face.load()
    words, rows = hugging_face.tokenizer(), tokenised(kind="bert")
    seeded = transformers.DataCollatorForLanguageModeling(words, mlm=True, mlm_probability=0.5, seed=42)
    plain = collators()["bert"]
    runs = {
        name: make("bert", data.source(rows, collate_fn=collate), **options)
        for name, collate, options in (("plain", plain, {}), ("seeded", seeded, {}), ("other", plain, {"seed": 1}))
    }
    assert "seed=42 of DataCollatorForLanguageModeling is not used" in " ".join(str(runs["seeded"]).split())
    assert (seeded.seed, seeded.generator) == (42, None)
    counts = {name: [int(update.count) for update in trainer.updates()] for name, trainer in runs.items()}
    assert counts["plain"] == counts["seeded"]
    assert counts["plain"] != counts["other"]
    assert_same(runs["plain"], runs["seeded"])


def test_padding_collators_for_classes() -> None:
    """`label` becomes `labels`, as the collator does it; without a collator the run does it."""
    transformers = hugging_face.load()
    datasets = pytest.importorskip("datasets")
    words, texts = hugging_face.tokenizer(), hugging_face.sentences(12)
    rows = datasets.Dataset.from_dict({"text": texts, "input_ids": words(texts)["input_ids"], "label": [0, 1, 2] * 4})
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=23, num_labels=3, **shape))
    trainer = Trainer(
        model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train=data.source(rows, collate_fn=transformers.DataCollatorWithPadding(words)),
        valid=0.25,
        metrics="accuracy",
        epochs=1,
        batch_size=4,
        progress=False,
    )
    assert {int(update.count) for update in trainer.updates()} == {4, 1}
    assert 0 <= last(trainer)["valid/accuracy"] <= 1


@pytest.mark.parametrize("form", [None, "torch", "numpy"])
def test_pictures_without_a_collator(form: str | None) -> None:
    rows = tokenised(12, kind="vit").with_format(form)
    trainer = make("vit", rows, valid=rows, metrics="accuracy", update_cycle=5)
    notes = " ".join(str(trainer).split())
    assert "label of train is given to the model as labels" in notes
    assert "columns of train that the model does not take are left out: text" in notes
    trainer.fit()
    plain = make(
        "vit", {"pixel_values": tokenised(12, kind="vit").with_format("torch")["pixel_values"][:], "labels": torch.arange(12) % 3}
    )
    plain.fit()
    for one, other in zip(trainer.model.parameters(), plain.model.parameters(), strict=True):
        assert one.shape == other.shape


def test_sequences_of_different_lengths_need_a_collator() -> None:
    rows = tokenised(kind="t5").remove_columns(["text", "idx"])
    with pytest.raises(DataError, match=r"do not fit together.*collate_fn="):
        make("t5", rows).fit()


def test_the_splits_of_a_dictionary() -> None:
    datasets = pytest.importorskip("datasets")
    collate = collators()["gpt2"]
    parts = {"train": tokenised(20), "validation": tokenised(6), "test": tokenised(7), "extra": tokenised(3)}
    whole = datasets.DatasetDict(parts)
    trainer = make("gpt2", data.source(whole, collate_fn=collate), metrics="perplexity")
    said = " ".join(str(trainer).split())
    assert "splits that are used: 'train' as train=, 'validation' as valid=, 'test' as test=; not used: extra" in said
    trainer.fit()
    assert {"valid/loss", "valid/perplexity"} <= set(last(trainer))
    named = make("gpt2", data.source(parts["train"], collate_fn=collate), valid=parts["validation"], test=parts["test"])
    named.fit()
    assert_same(trainer, named)
    other = make("gpt2", data.source(whole, collate_fn=collate), valid=parts["extra"])
    assert "valid 3 samples" in " ".join(str(other).split())
    with pytest.raises(DescriptionError, match=r"train holds the splits a, b; pass one of them: data\['a'\]"):
        make("gpt2", datasets.DatasetDict({"a": parts["train"], "b": parts["test"]}))
    with pytest.raises(DescriptionError, match=r"train has the columns text, and the model takes input_ids.*tokenise it"):
        make("gpt2", tokenised().select_columns("text"))


@pytest.mark.filterwarnings("ignore:train cannot say where it stands")
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_stream_goes_on_where_it_was(tmp_path: Path, is_shuffled: bool) -> None:
    """An IterableDataset with its texts: its own state in the checkpoints; with a buffer it is read again, which is said."""
    collate = collators()["gpt2"]

    def made(**options: Any) -> Trainer:
        stream = tokenised().to_iterable_dataset(num_shards=2)
        if is_shuffled:
            stream = stream.shuffle(seed=1, buffer_size=4)
        return make("gpt2", data.source(stream, collate_fn=collate), update_cycle=2, **options)

    whole = made()
    said = " ".join(str(whole).split())
    assert "left out: text, idx" in said
    assert ("train has a shuffle buffer, which its state_dict() does not keep" in said) is is_shuffled
    whole.fit()
    for stop in (1, 6, None):
        resumed = made(folder=tmp_path)
        for update in resumed.updates():
            if update.step == stop:
                break
    assert resumed.resumed_from == 7
    assert_same(resumed, whole)


def test_a_collate_function_of_ones_own_gets_all_columns() -> None:
    seen: list[set[str]] = []

    def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        seen.append(set(samples[0]))
        ids = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(sample["input_ids"]) for sample in samples], batch_first=True)
        return {"input_ids": ids, "labels": torch.where(ids == 0, -100, ids)}

    make("gpt2", data.source(tokenised(), collate_fn=collate), epochs=1).fit()
    assert {"text", "idx", "input_ids"} <= seen[0]


def test_an_objective_gets_all_but_the_texts() -> None:
    seen: list[set[str]] = []

    def objective(model: Any, batch: Any) -> Loss:
        seen.append(set(batch))
        output = model(input_ids=batch["input_ids"], labels=batch["labels"])
        return Loss(output.loss, (batch["labels"][:, 1:] != -100).sum())

    trainer = make("gpt2", data.source(tokenised(), collate_fn=collators()["gpt2"]), objective=objective, epochs=1)
    assert "columns of train that its collator cannot pad are left out: text" in " ".join(str(trainer).split())
    trainer.fit()
    assert seen[0] == {"idx", "input_ids", "attention_mask", "labels"}
