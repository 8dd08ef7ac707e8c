"""Arguments that can be read once: torch still gets all of a generator that the doctor has looked at."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import instep

Work = Callable[[nn.Module, Tensor], object]


def _gradients(model: nn.Module, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, model.parameters()))  # type: ignore[call-overload]


def _outputs(model: nn.Module, loss: Tensor) -> list[Tensor]:
    losses, weights = (each for each in (loss, 2 * loss)), iter(list(model.parameters()))
    return list(torch.autograd.grad(losses, inputs=weights))  # type: ignore[call-overload]


def _backward(model: nn.Module, loss: Tensor) -> list[Tensor | None]:
    torch.autograd.backward(map(torch.sum, (loss, 2 * loss)))  # type: ignore[arg-type]
    return [parameter.grad for parameter in model.parameters()]


def _named(model: nn.Module, loss: Tensor) -> list[Tensor | None]:
    torch.autograd.backward(tensors=iter([loss]))  # type: ignore[arg-type]
    return [parameter.grad for parameter in model.parameters()]


def _clipped(model: nn.Module, loss: Tensor) -> list[Tensor | None]:
    loss.backward()
    nn.utils.clip_grad_norm_((p for _, p in model.named_parameters()), 1e-3)
    nn.utils.clip_grad_value_(parameters=filter(lambda p: p.dim() > 1, model.parameters()), clip_value=1e-4)
    return [parameter.grad for parameter in model.parameters()]


def _optimized(model: nn.Module, loss: Tensor) -> list[Tensor]:
    groups: Iterator[dict[str, object]] = ({"params": part.parameters(), "lr": 0.1} for part in model.children())
    optimizer = torch.optim.SGD(groups, lr=0.1)
    loss.backward()
    optimizer.step()
    return list(model.parameters())


@pytest.mark.parametrize("work", [_gradients, _outputs, _backward, _named, _clipped, _optimized])
def test_torch_gets_all_of_a_generator(work: Work) -> None:
    def run() -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        given = work(model, model(torch.ones(5, 3)).square().mean())
        assert isinstance(given, list)
        return [tensor.detach().clone() for tensor in given]

    alone = run()
    with instep.watch(aloud=False) as watcher:
        watched = run()
    assert len(alone) == 4
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))
    assert watcher.hub.failures == []


def test_what_a_generator_raises_reaches_the_caller() -> None:
    def broken(model: nn.Module) -> Iterator[Tensor]:
        yield next(model.parameters())
        raise LookupError("no more")

    with instep.watch(aloud=False) as watcher:
        model = nn.Linear(3, 1)
        loss = model(torch.ones(5, 3)).mean()
        with pytest.raises(LookupError, match="no more"):
            torch.autograd.grad(loss, broken(model))  # type: ignore[call-overload]
        loss.backward()
        with pytest.raises(LookupError, match="no more"):
            nn.utils.clip_grad_norm_(broken(model), 1.0)
    assert watcher.hub.failures == []
