"""The loss of a model's own: what it is the mean of is found by watching the first forward."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep import Trainer, UpdateCycle, data
from instep.errors import Notice, ObjectiveError
from instep.loop.model_loss import ModelLoss

VOCABULARY, LENGTH, IGNORED = 11, 6, -100
Work = Callable[..., Tensor]  # (model, logits (n, length, vocabulary), batch) -> the loss

DRAWN = torch.Generator().manual_seed(0)
IDS = torch.randint(VOCABULARY, (5, LENGTH), generator=DRAWN)
LABELS = IDS.clone()
LABELS[0, 2:] = LABELS[2, :1] = LABELS[3, 4:] = IGNORED


class Language(nn.Module):
    """Tokens in, scores of tokens and the loss that `work` makes of them out."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(VOCABULARY, 4)
        self.head = nn.Linear(4, VOCABULARY)
        self.register_buffer("weight", torch.linspace(0.2, 2.0, VOCABULARY))
        self.work = work
        self.double()

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **others: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.embedding(input_ids).cumsum(1))
        return {"loss": self.work(self, logits, labels, **others), "logits": logits}


def masked(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def smoothed(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    loss: Tensor = nn.CrossEntropyLoss(label_smoothing=0.1)(logits.transpose(1, 2), labels)
    return loss


def weighted(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, weight=model.weight)


def causal(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    shifted = F.pad(labels, (0, 1), value=IGNORED)[..., 1:]
    return F.cross_entropy(logits.flatten(0, 1), shifted.flatten())


def causal_cut(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def prefixed(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    """As with prompt tuning: two tokens of the model's own before each sequence, so that the first label counts too."""
    longer = torch.cat([torch.full_like(labels[:, :2], IGNORED), labels], 1)
    scores = torch.cat([logits[:, :2] + 1, logits], 1)
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), longer[:, 1:].flatten())


def two_heads(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    flat = labels.flatten()
    return F.cross_entropy(logits.flatten(0, 1), flat) + 0.4 * F.cross_entropy(2 * logits.flatten(0, 1), flat)


def elements(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits.mean(2), (labels > 3).double())


def summed(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def gradients(work: Work, pieces: list[slice], batch: dict[str, Tensor]) -> tuple[list[Tensor], float]:
    """The gradient of one update without its step, and what its loss was divided by."""
    model = Language(work)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    result = UpdateCycle(optimizer).run([{name: value[piece] for name, value in batch.items()} for piece in pieces], _of(model))
    return [p.grad for p in model.parameters() if p.grad is not None], float(result.count)


def _of(model: nn.Module) -> Callable[[Any], Any]:
    own = ModelLoss()
    return lambda batch: own(model, batch)


WHOLE, SPLIT = [slice(0, 5)], [slice(0, 1), slice(1, 3), slice(3, 5)]
KEPT, KEPT_SHIFTED = int((LABELS != IGNORED).sum()), int((LABELS[:, 1:] != IGNORED).sum())


@pytest.mark.parametrize(
    ("work", "count"),
    [
        (masked, KEPT),
        (smoothed, KEPT),
        (causal, KEPT_SHIFTED),
        (causal_cut, KEPT_SHIFTED),
        (prefixed, KEPT),
        (two_heads, KEPT),
        (weighted, None),
        (summed, 1),
    ],
)
def test_a_split_batch_gives_the_gradient_of_the_whole(work: Work, count: float | None) -> None:
    batch = {"input_ids": IDS, "labels": LABELS}
    whole, divisor = gradients(work, WHOLE, batch)
    split, _ = gradients(work, SPLIT, batch)
    assert count is None or divisor == count
    largest = max(float(gradient.abs().max()) for gradient in whole)
    for one, other in zip(whole, split, strict=True):
        assert float((one - other).abs().max()) <= 1e-12 * largest


def found(work: Work, **batch: Tensor) -> ModelLoss:
    own = ModelLoss()
    own(Language(work), {"input_ids": IDS, "labels": LABELS, **batch})
    return own


def auxiliary(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    loss = causal(model, logits, labels)
    loss += 0.1 * logits.square().mean()  # in place, as models with experts do it
    return loss


def own_way(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return (logits.square().mean(2) * (labels != IGNORED)).sum() / (labels != IGNORED).sum()


def two_tasks(model: Any, logits: Tensor, labels: Tensor, kind: Tensor) -> Tensor:
    return masked(model, logits, labels) + F.cross_entropy(logits[:, 0], kind)


def made_anew(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, weight=model.weight + 1)


def divided(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    return summed(model, logits, labels) / len(labels)


def contrastive(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    scores = logits[:, 0] @ logits[:, -1].T
    return F.cross_entropy(scores, torch.arange(len(labels)))


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (auxiliary, r"as cross_entropy of labels and something else beside it.*counts as a mean over what counts of labels"),
        (own_way, r"in a way of its own, so it counts as a mean over samples.*returns Loss\(value, count\)"),
        (made_anew, r"from cross_entropy of no entry of the batch, so it counts as a mean over samples"),
        (contrastive, r"from cross_entropy of no entry of the batch"),
        (elements, r"from binary_cross_entropy_with_logits of no entry of the batch"),
        (divided, r"divided by something, so it counts as a mean over samples"),
    ],
)
def test_what_cannot_be_known_is_said(work: Work, said: str) -> None:
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            notice = found(work).notice
        assert notice is not None
        assert re.search(said, notice), notice


def train(work: Work, **options: Any) -> Trainer:
    model = Language(work)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given: dict[str, Any] = {
        "train": {"input_ids": IDS, "labels": LABELS},
        "epochs": 2,
        "batch_size": 3,
        "progress": False,
    } | options
    return Trainer(model, optimizer=optimizer, **given)


def test_it_is_said_once_in_a_run() -> None:
    with pytest.warns(Notice, match="Language works out its loss in a way of its own") as seen:
        train(own_way).fit()
    assert len(seen) == 1
    with pytest.warns(
        Notice, match=r"returned the output of a model, whose loss counts as a mean over samples. Leave objective= out"
    ):
        train(causal, objective=lambda model, batch: model(**batch)).fit()


def test_a_first_batch_without_a_label_does_not_decide() -> None:
    """Where all is ignored nothing shows whether labels are shifted; the batches after it do."""
    own, model = ModelLoss(), Language(causal)
    nothing = own(model, {"input_ids": IDS[:1], "labels": torch.full_like(LABELS[:1], IGNORED)})
    assert float(nothing.count) == 0
    assert float(own(model, {"input_ids": IDS, "labels": LABELS}).count) == KEPT_SHIFTED


def test_metrics_get_the_targets_that_count() -> None:
    loss = ModelLoss()(Language(causal), {"input_ids": IDS, "labels": LABELS})
    assert (tuple(loss.output.shape), tuple(loss.target.shape)) == ((5, VOCABULARY, LENGTH - 1), (5, LENGTH - 1))
    found = train(causal, valid={"input_ids": IDS, "labels": LABELS}, metrics=("accuracy", "perplexity"), batch_size=2).evaluate()
    assert found["valid/perplexity"] == pytest.approx(float(torch.tensor(found["valid/loss"]).exp()), rel=1e-6)


def test_batches_that_cannot_be_meant() -> None:
    with pytest.raises(ObjectiveError, match=r"batches are mappings for model\(\*\*batch\); this one is a tuple"):
        train(masked, train=(IDS, LABELS)).fit()
    without = train(lambda *_: None, train={"input_ids": IDS})  # type: ignore[arg-type]
    with pytest.raises(ObjectiveError, match="without a loss, and the batch has no labels"):
        without.fit()


def test_samples_in_another_dimension_are_counted_there() -> None:
    """Time first: what is not known counts as a mean over samples, wherever they stand."""

    def collate(samples: list[Any]) -> dict[str, Tensor]:
        return {name: torch.stack([sample[name] for sample in samples], 1) for name in samples[0]}

    rows = [{"input_ids": one, "labels": other} for one, other in zip(IDS, LABELS, strict=True)]
    trainer = train(own_way, train=data.source(rows, collate_fn=collate, batch_dim=1))
    with pytest.warns(Notice, match="in a way of its own"):
        assert {int(update.count) for update in trainer.updates()} == {3, 2}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_is_counted_too() -> None:
    counts = [[int(update.count) for update in train(causal, compile=compiled).updates()] for compiled in (False, True)]
    assert counts[0] == counts[1]
