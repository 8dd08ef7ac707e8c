"""Metrics by name against torchmetrics: random outputs, ragged batches, ignored targets, all forms of a task."""

import itertools
import math
from typing import Any

import pytest
import torch
import torchmetrics.functional as tm
import torchmetrics.functional.classification as tmc
from torch import Tensor
from torchmetrics.functional.text import perplexity

from loop.measured import in_batches, measured

IGNORED = 255
SIZES = (7, 1, 12, 3)
SAMPLES = sum(SIZES)
CLASS_METRICS = {
    "precision": "precision",
    "recall": "recall",
    "f1": "f1_score",
    "dice": "f1_score",
    "iou": "jaccard_index",
}


def draw(seed: int, *shape: int) -> tuple[torch.Generator, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return generator, torch.randn(*shape, generator=generator) * 2


def ignored(target: Tensor, generator: torch.Generator) -> Tensor:
    """About one in four does not count, and a whole batch."""
    target = target.clone()
    target[torch.rand(target.shape, generator=generator) < 0.25] = IGNORED
    target[SIZES[0] : SIZES[0] + SIZES[1]] = IGNORED
    return target


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64), expected.double(), rtol=1e-6, atol=1e-7, equal_nan=True
    )


def over(names: Any, output: Tensor, target: Tensor) -> dict[str, Any]:
    return measured(names, *in_batches(output, target, *SIZES), ignore_index=IGNORED)


each_seed = pytest.mark.parametrize("seed", range(4))
each_shape = pytest.mark.parametrize("more", [(), (5,), (3, 4)], ids=["one label", "tokens", "pixels"])


@each_seed
@each_shape
@pytest.mark.parametrize("classes", [3, 6])
def test_many_classes(classes: int, more: tuple[int, ...], seed: int) -> None:
    generator, output = draw(seed, SAMPLES, classes, *more)
    target = ignored(torch.randint(classes - (seed == 3), (SAMPLES, *more), generator=generator), generator)
    told: dict[str, Any] = {"num_classes": classes, "ignore_index": IGNORED}
    names = ["accuracy", "top2", "top_3", "perplexity", "auroc", "auroc_per_class", "average_precision", "confusion_matrix"]
    found = over(
        [*names, *(f"{n}{how}" for n in CLASS_METRICS for how in ("", "_macro", "_micro", "_weighted", "_per_class"))],
        output,
        target,
    )
    close(found["accuracy"], tmc.multiclass_accuracy(output, target, average="micro", **told))
    close(found["top2"], tmc.multiclass_accuracy(output, target, average="micro", top_k=2, **told))
    close(found["top_3"], tmc.multiclass_accuracy(output, target, average="micro", top_k=3, **told))
    tokens = (output.flatten(2).transpose(1, 2), target.flatten(1)) if more else (output[None], target[None])
    close(found["perplexity"], perplexity(*tokens, ignore_index=IGNORED))
    assert found["confusion_matrix"] == tmc.multiclass_confusion_matrix(output, target, **told).tolist()
    for name, theirs in CLASS_METRICS.items():
        function = getattr(tmc, f"multiclass_{theirs}")
        for how in ("macro", "micro", "weighted"):
            close(found[f"{name}_{how}"], function(output, target, average=how, **told))
        assert found[name] == found[f"{name}_macro"]
        per_class = torch.tensor(list(found[f"{name}_per_class"].values()), dtype=torch.float64)
        close(per_class.nan_to_num(), function(output, target, average="none", **told))
    absent = set(range(classes)) - set(target.flatten().tolist())
    if not absent:  # torchmetrics calls a class that is never there 0, here it has no value
        close(found["auroc"], tmc.multiclass_auroc(output, target, **told))
        close(list(found["auroc_per_class"].values()), tmc.multiclass_auroc(output, target, average="none", **told))
        close(found["average_precision"], tmc.multiclass_average_precision(output, target, **told))
    else:
        kept = [value for value in found["auroc_per_class"].values() if not math.isnan(value)]
        assert len(kept) == classes - len(absent)
        assert found["auroc"] == pytest.approx(sum(kept) / len(kept))


FORMS = ["two logits", "a dimension of 1", "float target", "squeezed target"]


@each_seed
@pytest.mark.parametrize(("form", "more"), [("one logit", ()), *itertools.product(FORMS, [(), (5,), (3, 4)])])
def test_two_classes(form: str, more: tuple[int, ...], seed: int) -> None:
    """However it is said: the numbers are those of class 1."""
    generator, logit = draw(seed, SAMPLES, *more)
    target = ignored(torch.randint(2, (SAMPLES, *more), generator=generator), generator)
    shaped: dict[str, tuple[Tensor, Tensor]] = {
        "one logit": (logit, target),
        "two logits": (torch.stack([-logit, torch.zeros_like(logit)], 1), target),
        "a dimension of 1": (logit.unsqueeze(1), target.unsqueeze(1)),
        "float target": (logit.unsqueeze(1), target.unsqueeze(1).float()),
        "squeezed target": (logit.unsqueeze(1), target.float()),
    }
    names = ["accuracy", *CLASS_METRICS, "auroc", "average_precision", "confusion_matrix", "f1_macro", "auroc_per_class"]
    found = over(names, *shaped[form])
    told: dict[str, Any] = {"ignore_index": IGNORED}
    probability = logit.double().sigmoid()
    for name, theirs in {
        **CLASS_METRICS,
        "accuracy": "accuracy",
        "auroc": "auroc",
        "average_precision": "average_precision",
    }.items():
        close(found[name], getattr(tmc, f"binary_{theirs}")(probability, target, **told))
    assert found["confusion_matrix"] == tmc.binary_confusion_matrix(probability, target, **told).tolist()
    assert found["auroc_per_class"] == {"1": found["auroc"]}
    chosen = torch.stack([-logit, logit], 1)
    close(found["f1_macro"], tmc.multiclass_f1_score(chosen, target, num_classes=2, average="macro", **told))


@each_seed
@pytest.mark.parametrize("more", [(), (3, 4)], ids=["one answer", "pixels"])
def test_labels(more: tuple[int, ...], seed: int) -> None:
    generator, output = draw(seed, SAMPLES, 5, *more)
    target = ignored(torch.randint(2, output.shape, generator=generator), generator)
    names = ["accuracy", "auroc", "average_precision", "auroc_per_class", "confusion_matrix"]
    found = over(
        [*names, *(f"{n}{how}" for n in CLASS_METRICS for how in ("", "_micro", "_weighted", "_per_class"))], output, target
    )
    told: dict[str, Any] = {"num_labels": 5, "ignore_index": IGNORED}
    close(found["accuracy"], tmc.multilabel_accuracy(output, target, average="micro", **told))
    assert found["confusion_matrix"] == tmc.multilabel_confusion_matrix(output, target, **told).tolist()
    for name in ("auroc", "average_precision"):
        close(found[name], getattr(tmc, f"multilabel_{name}")(output.double(), target, **told))
    for name, theirs in CLASS_METRICS.items():
        function = getattr(tmc, f"multilabel_{theirs}")
        close(found[name], function(output, target, average="macro", **told))
        for how in ("micro", "weighted"):
            close(found[f"{name}_{how}"], function(output, target, average=how, **told))
        close(list(found[f"{name}_per_class"].values()), function(output, target, average="none", **told))


@each_seed
def test_ties_are_counted_as_they_are(seed: int) -> None:
    generator, _ = draw(seed, 1)
    output = torch.randint(-2, 3, (SAMPLES,), generator=generator).float()
    target = torch.randint(2, (SAMPLES,), generator=generator)
    found = over(["auroc", "average_precision"], output, target)
    pairs = [(p, n) for p in output[target == 1].tolist() for n in output[target == 0].tolist()]
    assert found["auroc"] == pytest.approx(sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs), rel=1e-15)
    close(found["average_precision"], tmc.binary_average_precision(output.sigmoid(), target))


def test_scores_near_certainty_keep_their_order() -> None:
    """In float32 the probabilities of 20 and 30 are both 1."""
    output = torch.tensor([[0.0, 30.0], [0.0, 20.0], [0.0, -20.0]])
    assert measured("auroc", (output, torch.tensor([1, 0, 0]))) == {"auroc": 1.0}
    assert math.isnan(measured("auroc", (output * math.nan, torch.tensor([1, 0, 0])))["auroc"])


@each_seed
@pytest.mark.parametrize("shape", [(SAMPLES,), (SAMPLES, 1), (SAMPLES, 3)], ids=str)
def test_numbers(shape: tuple[int, ...], seed: int) -> None:
    generator, output = draw(seed, *shape)
    target = output + torch.randn(shape, generator=generator)
    found = over(["mae", "mse", "rmse", "r2"], output, target)
    flat = output.double().flatten(), target.double().flatten()
    close(found["mae"], tm.mean_absolute_error(*flat))
    close(found["mse"], tm.mean_squared_error(*flat))
    close(found["rmse"], tm.mean_squared_error(*flat, squared=False))
    close(found["r2"], tm.r2_score(output.double().squeeze(-1), target.double().squeeze(-1)))
    for one, other in ((output[:, None], target), (output, target[:, None])) if len(shape) == 1 else ():
        assert over(["mae", "mse", "rmse", "r2"], one, other) == found
    kept = torch.rand(shape, generator=generator) < 0.7
    left_out = over(["mae", "mse", "rmse"], output, torch.where(kept, target, IGNORED))
    close(left_out["mae"], (output - target)[kept].double().abs().mean())
    if len(shape) == 1:
        close(
            over("r2", output, torch.where(kept, target, IGNORED))["r2"],
            tm.r2_score(output[kept].double(), target[kept].double()),
        )


def test_r2_far_from_zero() -> None:
    """Σy² − (Σy)²/n has no correct digit left here."""
    target = 1e9 + torch.randn(SAMPLES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    output = target + 0.5 * torch.randn(SAMPLES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    close(over("r2", output, target)["r2"], 1 - (output - target).square().sum() / (target - target.mean()).square().sum())
    assert math.isnan(over("r2", output, torch.ones(SAMPLES))["r2"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_added_up_in_double(dtype: torch.dtype) -> None:
    """In bfloat16 a sum stands still at 256."""
    output, target = torch.zeros(3000, dtype=dtype), torch.ones(3000)
    assert measured(["mae", "mse"], (output, target)) == {"mae": 1.0, "mse": 1.0}
    scores = torch.zeros(3000, 4, dtype=dtype)
    assert measured("perplexity", (scores, torch.zeros(3000).long()))["perplexity"] == pytest.approx(4, rel=1e-6)


def test_a_perplexity_too_large_for_a_number() -> None:
    assert measured("perplexity", (torch.tensor([[0.0, 1e4]]), torch.tensor([0]))) == {"perplexity": math.inf}


def test_metrics_that_count_the_same_things_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counting(name: str, *arguments: Any, **told: Any) -> Any:
        calls.append(name)
        return classify(name, *arguments, **told)

    from instep.loop.metrics import counts
    from instep.loop.metrics.forms import classify

    monkeypatch.setattr(counts, "classify", counting)
    measured(["f1", "precision", "recall_micro", "iou_per_class"], (torch.eye(3), torch.arange(3)))
    assert calls == ["f1"]
