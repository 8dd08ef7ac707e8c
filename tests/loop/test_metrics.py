import math

import pytest
import torch
import torchmetrics

from instep.errors import DescriptionError, ObjectiveError
from instep.loop.metrics import accuracy, as_metrics, higher_is_better
from instep.loop.monitor import mode_for

CPU = torch.device("cpu")


def test_accuracy_of_classes_logits_and_tokens() -> None:
    assert accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])).tolist() == [1, 0]
    assert accuracy(torch.tensor([1.5, -2.0]), torch.tensor([1.0, 1.0])).tolist() == [1, 0]
    scores = torch.tensor([[[9.0, 0.0, 9.0], [0.0, 9.0, 0.0]]])  # one sentence, two classes, three tokens: 0 1 0
    assert accuracy(scores, torch.tensor([[0, 0, -100]])).tolist() == [0.5]
    with pytest.raises(
        ObjectiveError, match=r"accuracy cannot compare an output of shape \(2, 3, 4\) with a target of shape \(2,\)"
    ):
        accuracy(torch.zeros(2, 3, 4), torch.zeros(2))


def test_the_mean_is_over_samples_not_over_batches() -> None:
    metric = as_metrics("accuracy")["accuracy"]
    metric.reset(CPU)
    metric.add(torch.tensor([[1.0, 0.0]] * 3), torch.tensor([0, 0, 0]))
    metric.add(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    assert metric.value() == 0.75
    metric.reset(CPU)
    metric.add(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert metric.value() == 1


def test_ways_to_say_a_metric() -> None:
    assert list(as_metrics(None)) == []
    assert list(as_metrics(accuracy)) == ["accuracy"]
    assert list(as_metrics(["accuracy", torchmetrics.MeanSquaredError()])) == ["accuracy", "MeanSquaredError"]
    assert list(as_metrics({"top": "accuracy"})) == ["top"]
    with pytest.raises(DescriptionError, match="metric 'acuracy' is not known; known are: accuracy"):
        as_metrics("acuracy")
    with pytest.raises(DescriptionError, match="two metrics are called accuracy"):
        as_metrics(["accuracy", accuracy])
    with pytest.raises(DescriptionError, match="metric top is a int"):
        as_metrics({"top": 5})
    with pytest.raises(DescriptionError, match="metrics=3 is no metric"):
        as_metrics(3)


def test_a_metric_gives_one_value_a_sample() -> None:
    metric = as_metrics({"mean": lambda output, target: output.mean()})["mean"]
    metric.reset(CPU)
    with pytest.raises(ObjectiveError, match=r"metric mean gave shape \(\) for 4 samples; it must give one value a sample"):
        metric.add(torch.zeros(4), torch.zeros(4))


def test_torchmetrics_add_up_by_themselves_and_know_their_direction() -> None:
    given = {"f1": torchmetrics.F1Score("multiclass", num_classes=3), "error": torchmetrics.MeanSquaredError()}
    metric = as_metrics(given)["f1"]
    metric.reset(CPU)
    metric.add(torch.eye(3), torch.tensor([0, 1, 2]))
    assert float(metric.value()) == 1
    assert higher_is_better(as_metrics(given), "f1") is True
    assert higher_is_better(as_metrics(given), "error") is False
    assert higher_is_better(as_metrics({"own": accuracy}), "own") is None
    collection = torchmetrics.MetricCollection({"f1": given["f1"], "error": given["error"]})
    assert higher_is_better(as_metrics({"scores": collection}), "scores/error") is False
    assert higher_is_better(as_metrics({"scores": collection}), "scores") is None
    assert mode_for("valid/scores/f1", "auto", as_metrics({"scores": collection})) == "max"


def test_accuracy_refuses_what_it_would_get_wrong() -> None:
    for output, target in ((torch.zeros(4, 1), torch.zeros(4).long()), (torch.zeros(2, 5, 5), torch.zeros(2, 4).long())):
        with pytest.raises(ObjectiveError, match="accuracy cannot compare an output of shape"):
            accuracy(output, target)


def test_a_sample_without_a_target_does_not_count() -> None:
    metric = as_metrics("accuracy")["accuracy"]
    metric.reset(CPU)
    metric.add(torch.tensor([[1.0, 0.0]] * 3), torch.tensor([0, 1, -100]))
    assert metric.value() == 0.5
    metric.reset(CPU)
    metric.add(torch.tensor([[1.0, 0.0]]), torch.tensor([-100]))
    assert math.isnan(metric.value())
