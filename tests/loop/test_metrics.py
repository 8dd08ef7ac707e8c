"""How metrics are said, what they take, and what they refuse."""

import functools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchmetrics
from torch import Tensor, nn

from instep import Trainer
from instep.distributed.world import World
from instep.errors import DescriptionError, Notice, ObjectiveError
from instep.loop.metrics import metric as measuring
from instep.loop.metrics.metric import higher_is_better
from instep.loop.metrics.names import accuracy, as_metrics
from instep.loop.monitor import mode_for
from instep.loop.objective import Loss
from loop.measured import CPU, in_batches, measured


def test_accuracy_of_classes_logits_and_tokens() -> None:
    assert accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])).tolist() == [1, 0]
    assert accuracy(torch.tensor([1.5, -2.0]), torch.tensor([1.0, 1.0])).tolist() == [1, 0]
    scores = torch.tensor([[[9.0, 0.0, 9.0], [0.0, 9.0, 0.0]]])  # one sentence, two classes, three tokens: 0 1 0
    assert accuracy(scores, torch.tensor([[0, 0, -100]])).tolist() == [0.5]
    assert accuracy(scores, torch.tensor([[0, 0, 7]]), ignore_index=7).tolist() == [0.5]
    with pytest.raises(
        ObjectiveError, match=r"accuracy cannot compare an output of shape \(2, 3, 4\) with a target of shape \(2,\)"
    ):
        accuracy(torch.zeros(2, 3, 4), torch.zeros(2))


def test_the_mean_is_over_samples_not_over_batches() -> None:
    batches = [(torch.tensor([[1.0, 0.0]] * 3), torch.tensor([0, 0, 0])), (torch.tensor([[1.0, 0.0]]), torch.tensor([1]))]
    assert measured("accuracy", *batches) == {"accuracy": 0.75}
    assert measured("accuracy", batches[0]) == {"accuracy": 1}


@pytest.mark.parametrize(("name", "meant"), [("acc", "accuracy"), ("roc_auc_score", "auroc"), ("f1_score", "f1")])
def test_a_name_from_elsewhere_gets_the_one_here(name: str, meant: str) -> None:
    with pytest.raises(DescriptionError, match=rf"metric '{name}' is not known; did you mean '{meant}'\?"):
        as_metrics(name)


def test_ways_to_say_a_metric() -> None:
    assert list(as_metrics(None)) == []
    assert list(as_metrics(accuracy)) == ["accuracy"]
    assert list(as_metrics(["accuracy", torchmetrics.MeanSquaredError()])) == ["accuracy", "MeanSquaredError"]
    assert list(as_metrics({"top": "accuracy"})) == ["top"]
    with pytest.raises(
        DescriptionError, match=r"metric 'acuracy' is not known; did you mean 'accuracy'\? Known are: accuracy, top5"
    ):
        as_metrics("acuracy")
    with pytest.raises(DescriptionError, match="metric 'f1_mean' is not known"):
        as_metrics("f1_mean")
    with pytest.raises(DescriptionError, match="metric 'top0' is not known"):
        as_metrics("top0")
    with pytest.raises(DescriptionError, match="metric 'zzz' is not known; known are: accuracy"):
        as_metrics(["zzz"])
    with pytest.raises(DescriptionError, match="two metrics are called accuracy"):
        as_metrics(["accuracy", accuracy])
    with pytest.raises(DescriptionError, match=r"metric top is a int; pass a function f\(output, target\)"):
        as_metrics({"top": 5})
    with pytest.raises(DescriptionError, match="metric error is the class MeanSquaredError"):
        as_metrics({"error": torchmetrics.MeanSquaredError})
    with pytest.raises(DescriptionError, match="metrics=3 is no metric"):
        as_metrics(3)
    for name in ("", "a/b", "loss", "ema", 3):
        with pytest.raises(DescriptionError, match=rf"metrics= has the name {name!r}; use a word without"):
            as_metrics({name: "accuracy"})


# --- Functions


def test_a_function_gives_one_value_a_sample_or_one_a_batch() -> None:
    batches = [(torch.arange(4.0), torch.zeros(4)), (torch.tensor([11.0]), torch.zeros(1))]
    each = {"mean": lambda output, target: output - target}
    whole: list[Any] = [lambda output, target: (output - target).mean(), lambda output, target: float((output - target).mean())]
    for given in (each, *({"mean": one} for one in whole)):
        assert measured(given, *batches) == {"mean": (0 + 1 + 2 + 3 + 11) / 5}


def test_nan_does_not_count() -> None:
    batches = [(torch.tensor([1.0, math.nan, 4.0]), torch.zeros(3)), (torch.tensor([math.nan]), torch.zeros(1))]
    assert measured({"own": lambda output, target: output}, *batches) == {"own": 2.5}
    assert measured({"own": lambda output, target: output.nanmean()}, *batches) == {"own": 2.5}
    assert math.isnan(measured({"own": lambda output, target: output}, batches[1])["own"])


@pytest.mark.parametrize(
    ("returned", "found"),
    [(torch.zeros(3), r"shape \(3,\)"), (torch.zeros(4, 2), r"shape \(4, 2\)"), ({"a": 1}, "a dict"), (None, "a NoneType")],
    ids=["other length", "two dimensions", "mapping", "nothing"],
)
def test_what_else_a_function_returns_is_refused(returned: Any, found: str) -> None:
    with pytest.raises(
        ObjectiveError, match=rf"metric own gave {found} for 4 samples; it must give one value a sample, \(4,\), or one"
    ):
        measured({"own": lambda output, target: returned}, (torch.zeros(4), torch.zeros(4)))


# --- torchmetrics


def test_torchmetrics_add_up_by_themselves_and_know_their_direction() -> None:
    given = {"f1": torchmetrics.F1Score("multiclass", num_classes=3), "error": torchmetrics.MeanSquaredError()}
    assert float(measured({"f1": given["f1"]}, (torch.eye(3), torch.tensor([0, 1, 2])))["f1"]) == 1
    assert higher_is_better(as_metrics(given), "f1") is True
    assert higher_is_better(as_metrics(given), "error") is False
    assert higher_is_better(as_metrics({"own": lambda output, target: output}), "own") is None
    collection = torchmetrics.MetricCollection({"f1": given["f1"], "error": given["error"]})
    assert higher_is_better(as_metrics({"scores": collection}), "scores/error") is False
    assert higher_is_better(as_metrics({"scores": collection}), "scores") is None
    assert mode_for("valid/scores/f1", "auto", as_metrics({"scores": collection})) == "max"


def test_what_torchmetrics_refuses_is_said_with_shapes() -> None:
    metric = torchmetrics.F1Score("multiclass", num_classes=3)
    with pytest.raises(
        ObjectiveError,
        match=r"metric f1 \(MulticlassF1Score\) does not take output=a tensor of shape \(4, 5\) and target=.* \(3,\): .",
    ):
        measured({"f1": metric}, (torch.zeros(4, 5), torch.zeros(3).long()))


# --- What is ignored


def trainer(loss: Any = None, **options: Any) -> Trainer:
    """A model that segments without a mistake, where half of the pixels do not count."""
    x = torch.randint(2, (6, 1, 4, 4), generator=torch.Generator().manual_seed(0)).float()
    y = x[:, 0].long()
    y[:, :2] = 255
    model = nn.Conv2d(1, 2, 1)
    model.load_state_dict({"weight": torch.tensor([-1.0, 1.0]).reshape(2, 1, 1, 1), "bias": torch.tensor([0.5, -0.5])})
    return Trainer(
        model,
        loss=loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train=(x, y),
        valid=(x, y),
        epochs=1,
        batch_size=4,
        progress=False,
        **options,
    )


def own_loss(output: Tensor, target: Tensor, ignore_index: int = 255) -> Tensor:
    return F.cross_entropy(output, target, ignore_index=ignore_index)


class OwnLoss(nn.Module):
    ignore_index = 255

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return own_loss(output, target)


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
    output = model(batch[0])
    return Loss(own_loss(output, batch[1]), (batch[1] != 255).sum(), output, batch[1], ignore_index=255)


EVERY = ["accuracy", "precision", "recall", "f1", "f1_macro", "iou", "dice", "auroc", "average_precision"]


@pytest.mark.filterwarnings("ignore::instep.errors.Notice")
@pytest.mark.parametrize(
    "said",
    [
        {"loss": nn.CrossEntropyLoss(ignore_index=255)},
        {"loss": functools.partial(F.cross_entropy, ignore_index=255)},
        {"loss": nn.CrossEntropyLoss(ignore_index=255, reduction="sum")},
        {"loss": own_loss},
        {"loss": functools.partial(own_loss, ignore_index=255)},
        {"loss": OwnLoss()},
        {"objective": objective},
    ],
    ids=["module", "partial", "sum", "default", "own partial", "own module", "objective"],
)
def test_metrics_take_what_is_ignored_from_the_loss(said: dict[str, Any]) -> None:
    evaluation = trainer(metrics=[*EVERY, "perplexity", "confusion_matrix"], **said).evaluate()
    assert {name: evaluation[f"valid/{name}"] for name in EVERY} == dict.fromkeys(EVERY, 1.0)
    if "reduction" not in str(said):
        assert evaluation["valid/perplexity"] < 1.8
    assert sum(map(sum, evaluation.tables["valid/confusion_matrix"])) == 6 * 8


def test_a_sample_without_a_target_does_not_count() -> None:
    assert measured("accuracy", (torch.tensor([[1.0, 0.0]] * 3), torch.tensor([0, 1, -100]))) == {"accuracy": 0.5}
    for name in ("accuracy", "f1", "f1_macro", "auroc", "average_precision", "perplexity", "top2"):
        assert math.isnan(measured(name, (torch.tensor([[1.0, 0.0]]), torch.tensor([-100])))[name])
    for name in ("mae", "mse", "rmse", "r2"):
        assert math.isnan(measured(name, (torch.zeros(2), torch.tensor([7.0, 7.0])), ignore_index=7)[name])


def test_numbers_are_ignored_only_where_it_is_said() -> None:
    """-100 is a temperature as good as any other."""
    batch = (torch.tensor([-100.0, 1.0]), torch.tensor([-100.0, 3.0]))
    assert measured(["mae", "mse"], batch) == {"mae": 1.0, "mse": 2.0}
    assert measured(["mae", "mse", "r2"], batch, ignore_index=-100)["mae"] == 2.0


def test_uint8_targets_of_156_are_not_minus_100() -> None:
    output = torch.zeros(2, 200)
    output[:, 156] = 1
    assert measured("accuracy", (output, torch.tensor([156, 156], dtype=torch.uint8))) == {"accuracy": 1.0}


class Shifted(nn.Module):
    """Numbers about 0 and 1, beyond them too."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 + 0.3 * x


@pytest.mark.parametrize(
    ("loss", "last"),
    [
        (nn.BCELoss(), [nn.Sigmoid()]),
        (F.binary_cross_entropy, [nn.Sigmoid()]),
        (nn.BCEWithLogitsLoss(), []),
        (lambda output, target: 2 * F.binary_cross_entropy(output, target), [nn.Sigmoid()]),
        (lambda output, target: 2 * F.binary_cross_entropy_with_logits(output, target), []),
        (F.mse_loss, [nn.Sigmoid()]),
        (F.mse_loss, [Shifted()]),
        (lambda output, target: Loss(output.mean(), 4, output, target), [nn.Sigmoid()]),
        (lambda output, target: Loss(output.mean(), 4, output, target), []),
    ],
    ids=["BCELoss", "function", "logits", "own", "own logits", "mse", "mse of a line", "Loss", "Loss of logits"],
)
def test_probabilities_are_told_by_the_loss_or_shown_by_the_outputs(loss: Any, last: list[nn.Module]) -> None:
    """A probability above 0 is no 1."""
    x = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]])
    line = nn.Linear(1, 1)
    with torch.no_grad():
        line.weight.fill_(1.0)
        line.bias.zero_()
    model = nn.Sequential(line, *last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = Trainer(
        model, loss=loss, optimizer=optimizer, train=(x, (x > 0).float()), epochs=1, metrics=["accuracy", "f1"], progress=False
    )
    evaluation = made.evaluate((x, (x > 0).float()))
    assert (evaluation["data/accuracy"], evaluation["data/f1"]) == (1.0, 1.0)


def test_what_outputs_show_is_shown_by_all_of_them() -> None:
    """Logits that lie between 0 and 1 in one batch alone are logits."""
    logits, target = torch.tensor([0.2, 0.3, 4.0, -3.0]), torch.tensor([1.0, 1.0, 1.0, 0.0])
    assert measured(["accuracy", "f1"], *in_batches(logits, target, 2, 2)) == {"accuracy": 1.0, "f1": 1.0}
    probabilities = torch.tensor([0.2, 0.9, 0.3, 0.6])
    found = measured(["accuracy", "confusion_matrix"], *in_batches(probabilities, torch.tensor([0.0, 1.0, 1.0, 0.0]), 1, 3))
    assert found == {"accuracy": 0.5, "confusion_matrix": [[1, 1], [1, 1]]}
    assert measured("accuracy", (probabilities, torch.ones(4)), threshold=0.0) == {"accuracy": 1.0}


def test_outputs_of_other_processes_show_it_too() -> None:
    class Two(World):
        def gather_objects(self, value: Any) -> list[Any]:
            return [value, value if isinstance(value, Tensor) else [[-3.0, 4.0, 0.0]]]

    metrics = as_metrics("accuracy")
    measuring.start(metrics, CPU)
    measuring.add(metrics, Loss(torch.tensor(0.0), 1, torch.tensor([0.2, 0.9]), torch.tensor([1.0, 1.0])))
    assert measuring.values(metrics, Two()) == {"accuracy": 1.0}
    assert measuring.values(metrics) == {"accuracy": 0.5}


def test_outputs_that_do_not_count_show_nothing() -> None:
    batch = (torch.tensor([0.2, 0.9, 7.0]), torch.tensor([0.0, 1.0, -100.0]))
    assert measured("accuracy", batch) == {"accuracy": 1.0}


def test_targets_of_minus_1_and_1() -> None:
    batch = (torch.tensor([0.2, 0.9, -0.1]), torch.tensor([1.0, 1.0, -1.0]))
    for threshold in ("auto", "nearest", 0.0):
        assert measured("accuracy", batch, threshold=threshold) == {"accuracy": 1.0}


@pytest.mark.parametrize(("value", "threshold"), [(0.37, "nearest"), (2.5, "auto"), (-0.3, "auto"), (3.5, 0.0)])
@pytest.mark.parametrize("name", ["accuracy", "f1", "confusion_matrix", "auroc"])
def test_numbers_are_no_classes(name: str, value: float, threshold: Any) -> None:
    batch = (torch.zeros(2, 1), torch.tensor([[0.0], [value]]))
    with pytest.raises(ObjectiveError, match=rf"{name} compares classes, and the target holds {value} .*use mae or r2"):
        measured(name, batch, threshold=threshold)


def test_the_accuracy_of_a_regression_is_refused_before_the_first_update() -> None:
    x = torch.randn(16, 3)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = (x, x.sum(1, keepdim=True))
    made = Trainer(
        model, loss=F.mse_loss, optimizer=optimizer, train=data, valid=data, metrics="accuracy", epochs=1, progress=False
    )
    with pytest.raises(ObjectiveError, match="valid: accuracy compares classes, and the target holds"):
        made.fit()
    assert made.step == 0


def test_probabilities_as_targets_are_classes() -> None:
    batch = (torch.tensor([0.2, 0.9]), torch.tensor([0.1, 0.9]))
    assert measured("accuracy", batch) == {"accuracy": 1.0}


def test_class_probabilities_as_target_are_told_by_the_loss() -> None:
    output, target = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]), torch.tensor([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1]])
    assert measured("accuracy", (output, target), threshold=None) == {"accuracy": 0.5}


# --- Refused


def test_accuracy_refuses_what_it_would_get_wrong() -> None:
    for output, target in ((torch.zeros(4, 1), torch.zeros(4).long()), (torch.zeros(2, 5, 5), torch.zeros(2, 4).long())):
        with pytest.raises(ObjectiveError, match="accuracy cannot compare an output of shape"):
            accuracy(output, target)


@pytest.mark.parametrize(
    ("name", "output", "target", "words"),
    [
        ("f1", torch.zeros(4, 3), torch.zeros(4), r"\(4, 3\).*\(4,\).*the target is torch.float32: use target.long\(\)"),
        ("accuracy", torch.zeros(2, 7, 5), torch.zeros(2, 7).long(), r"the classes stand last: return Loss\(…, output.transpose"),
        ("mse", torch.zeros(4, 2), torch.zeros(4), r"mse cannot compare .*\(4, 2\) .*\(4,\); expected a prediction for each"),
        ("mae", torch.zeros(4, 1, 1), torch.zeros(4), r"mae cannot compare .*\(4, 1, 1\) .*\(4,\)"),
        ("r2", torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), r"r2 takes one prediction a sample, .* have shape \(2, 3, 4\)"),
        ("top5", torch.zeros(4, 3), torch.zeros(4).long(), r"top5 looks among the 5 highest scores, .* \(4, 3\) has 3 classes"),
        ("top2", torch.zeros(4), torch.zeros(4), r"top2 cannot compare .* expected scores \(n, classes, …\) for class indices"),
        ("perplexity", torch.zeros(4), torch.zeros(4), r"perplexity cannot compare"),
        ("f1", torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), r"f1 cannot tell what dimension 1 .* \(2, 3, 4\), holds: labels"),
        ("f1", torch.zeros(2, 3), torch.tensor([0, 3]), r"f1 found class 3 in the target, .* for 3 classes, 0 to 2"),
        ("accuracy", torch.zeros(2, 3), torch.tensor([0, -1]), r"accuracy found class -1 in the target"),
        ("accuracy", [torch.zeros(2, 3)], torch.tensor([0, 1]), r"accuracy compares tensors, and the output is a list"),
        ("mae", torch.zeros(2), None, r"mae compares tensors, and the target is a NoneType"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_said(name: str, output: Any, target: Any, words: str) -> None:
    with pytest.raises(ObjectiveError, match=words):
        measured(name, (output, target))


def test_batches_with_other_classes_are_refused() -> None:
    batches = [(torch.zeros(2, 3), torch.tensor([0, 1])), (torch.zeros(2, 4), torch.tensor([0, 1]))]
    with pytest.raises(ObjectiveError, match="f1 met 3 classes in one batch and 4 in another"):
        measured("f1", *batches)


# --- What is monitored


@pytest.mark.parametrize(
    ("names", "mode"),
    [
        (["accuracy", "top_3", "f1_micro", "iou", "dice", "auroc", "average_precision", "r2", "f1_per_class/1"], "max"),
        (["mae", "mse", "rmse", "perplexity"], "min"),
    ],
)
def test_the_direction_is_known_under_any_name(names: list[str], mode: str) -> None:
    for name in names:
        what, _, part = name.partition("/")
        metrics = as_metrics({"odd": what})
        assert mode_for(f"valid/odd/{part}".removesuffix("/"), "auto", metrics) == mode


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("confusion_matrix", r"monitor='valid/confusion_matrix' is a table, not one number; monitor another one"),
        ("f1_per_class", r"monitor='valid/f1_per_class' is one number a class; name one of them, like 'valid/f1_per_class/0'"),
    ],
)
def test_only_one_number_can_be_monitored(name: str, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        trainer(nn.CrossEntropyLoss(ignore_index=255), metrics=name, monitor=f"valid/{name}")


def test_a_part_can_be_monitored() -> None:
    made = trainer(
        nn.CrossEntropyLoss(ignore_index=255), metrics="f1_per_class", monitor="valid/f1_per_class/1", restore_best=True
    )
    assert made.fit().best is not None
    assert made.history.mode == "max"


def test_notices_of_losses_nobody_knows_stay() -> None:
    with pytest.warns(Notice, match="own_loss counts as a mean over samples"):
        trainer(own_loss).fit()
