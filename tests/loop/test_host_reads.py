"""Between two lines of the log the host reads nothing of the device, so that it never waits for it.

Here the CPU's tensors are declared not to be readable, as an accelerator's are; each read is seen by torch's dispatcher.
"""

import functools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from instep import OneCycle, Trainer
from instep.data import Order
from instep.errors import NonFiniteLoss
from instep.loop import accumulation, loss_counts, torch_losses, update

X = torch.randn(96, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(96) % 3
LOG_EVERY = 8


class Reads(TorchDispatchMode):
    """Counts the values that somebody reads on the host, and the copies to it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.nonzero.default):
            self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (accumulation, loss_counts, torch_losses, update):
        monkeypatch.setattr(module, "readable", lambda tensor: False)


def reads_of_each_update(**options: Any) -> list[int]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3))
    optimizer = options.pop("optimizer", functools.partial(torch.optim.SGD, lr=0.1))
    described = {
        "loss": F.cross_entropy,
        "train": (X, Y),
        "batch_size": 4,
        "epochs": 1,
        "progress": False,
        "log_every": LOG_EVERY,
    }
    found: list[int] = options.pop("seen", [])
    trainer = Trainer(model, optimizer=optimizer(model.parameters()), **{**described, **options})
    with Reads() as reads:
        for _ in trainer.updates():
            found.append(reads.count)
            reads.count = 0
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": functools.partial(torch.optim.AdamW, fused=True)},
        {"update_cycle": 2},
        {"update_cycle": 2, "loss": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]), ignore_index=1)},
        {"clip_norm": 1.0, "clip_value": 0.5, "l2": 0.01},
        {"schedule": OneCycle(0.5)},
        {"valid": (X, Y), "metrics": "accuracy"},
    ],
    ids=lambda options: ", ".join(options) or "plain",
)
def test_nothing_is_read_between_two_lines_of_the_log(options: dict[str, Any]) -> None:
    found = reads_of_each_update(**options)
    assert len(found) == 24
    between = [count for number, count in enumerate(found, 1) if number % LOG_EVERY]
    assert max(between[1:]) == 0, found  # the first is looked at


@pytest.mark.parametrize(
    ("options", "noticed", "followed"),
    [({}, 8, "; 2 updates followed before anybody looked"), ({"log_every": 1}, 6, "")],
)
def test_a_loss_that_is_not_finite_is_found_at_the_next_line(options: dict[str, Any], noticed: int, followed: str) -> None:
    x = X.clone()
    x[Order(96, seed=0, epoch=0)[5 * 4 + 1], 2] = torch.nan
    seen: list[int] = []
    words = (
        rf"^step 5 \(epoch 0, batch 5\): the loss or a gradient is not finite, and its step was made{followed}\. Go back .* nan"
    )
    with pytest.raises(NonFiniteLoss, match=words):
        reads_of_each_update(train=(x, Y), seen=seen, **options)
    assert len(seen) == noticed - 1


def test_the_counter_sees_a_read() -> None:
    def objective(model: nn.Module, batch: Any) -> Any:
        loss = F.cross_entropy(model(batch[0]), batch[1])
        return loss if loss.item() < 1e9 else loss * 0

    assert min(reads_of_each_update(loss=None, objective=objective)) >= 1
