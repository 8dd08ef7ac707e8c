import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from instep import keys
from instep.data.loading.loader import Loader
from instep.data.sources.recognize import as_source
from instep.errors import ObjectiveError
from instep.loop.evaluate import evaluate, evaluating, predict
from instep.loop.metrics.names import as_metrics
from instep.loop.objective import Loss, from_loss

CPU = torch.device("cpu")


def loader(*columns: Tensor, batch_size: int) -> Loader:
    return Loader(as_source(columns, "valid"), batch_size=batch_size, seed=0, device=CPU, shuffle=False)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()


def test_every_module_gets_its_own_mode_back() -> None:
    net = model()
    net[2].eval()
    with evaluating(net):
        assert not any(module.training for module in net.modules())
        assert not torch.is_grad_enabled()
    assert [module.training for module in net] == [True, True, False, True]
    with pytest.raises(RuntimeError, match="stop"), evaluating(net):
        raise RuntimeError("stop")
    assert [module.training for module in net] == [True, True, False, True]
    assert torch.is_grad_enabled()


def test_a_module_with_a_train_of_its_own_is_told() -> None:
    """An adapter that merges its weights for evaluation takes them apart again."""

    class Adapter(nn.Linear):
        merged = False

        def train(self, mode: bool = True) -> "Adapter":
            self.merged = not mode
            super().train(mode)
            return self

    adapter = Adapter(2, 2)
    with evaluating(adapter):
        assert adapter.merged
    assert not adapter.merged


@pytest.mark.parametrize("batch_size", [1, 4, 7, 30])
def test_means_are_exact_however_the_batches_fall(batch_size: int) -> None:
    """The loss is the mean over the targets that count, not a mean of means."""
    net = model().eval()
    x, y = torch.randn(23, 4, dtype=torch.float64), torch.randint(3, (23,))
    y[:6] = -100
    y[15] = -100
    found = evaluate(
        net, loader(x, y, batch_size=batch_size), from_loss(F.cross_entropy), as_metrics("accuracy"), seed=0, device=CPU
    )
    assert found["loss"] == pytest.approx(F.cross_entropy(net(x), y).item(), rel=1e-12)
    counted = y != -100
    assert found["accuracy"] == pytest.approx((net(x).argmax(1) == y)[counted].double().mean().item(), rel=1e-12)


def test_a_loss_of_one_element_is_a_number() -> None:
    net = model().eval()
    x, y = torch.randn(9, 4, dtype=torch.float64), torch.randint(3, (9,))

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
        return Loss(F.cross_entropy(model(batch[0]), batch[1]).reshape(1), len(batch[0]))

    found = evaluate(net, loader(x, y, batch_size=4), objective, {}, seed=0, device=CPU)
    assert found["loss"] == pytest.approx(F.cross_entropy(net(x), y).item(), rel=1e-12)


def test_outputs_that_are_not_by_sample_cannot_be_joined() -> None:
    with pytest.raises(ObjectiveError, match="the model gave an output of length 2 for 4 samples"):
        predict(nn.LSTM(4, 3, num_layers=2, batch_first=True), loader(torch.randn(9, 5, 4), batch_size=4), seed=0, device=CPU)


def test_nothing_is_left_behind() -> None:
    net = model()
    x, y = torch.randn(9, 4, dtype=torch.float64), torch.randint(3, (9,))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    keys.seed_all(1)
    expected = torch.rand(1)
    keys.seed_all(1)
    evaluate(net, loader(x, y, batch_size=4), from_loss(F.cross_entropy), {}, seed=0, device=CPU)
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_a_random_model_is_evaluated_under_keys_of_its_own() -> None:
    """Also a model that draws in eval mode gives the same numbers each time."""

    class Drawing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand_like(x)

    x, y = torch.randn(9, 4), torch.randint(4, (9,))
    first, second = (
        evaluate(Drawing(), loader(x, y, batch_size=4), from_loss(F.cross_entropy), {}, seed=0, device=CPU) for _ in range(2)
    )
    assert first == second


def test_metrics_need_the_output() -> None:
    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Loss:
        return Loss(model(batch[0]).mean(), len(batch[0]))

    with pytest.raises(ObjectiveError, match=r"metrics need what the model gave: return Loss\(value, count, output, target\)"):
        evaluate(
            nn.Linear(4, 3),
            loader(torch.zeros(2, 4), torch.zeros(2), batch_size=2),
            objective,
            as_metrics("accuracy"),
            seed=0,
            device=CPU,
        )
