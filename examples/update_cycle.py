"""A batch that is split into micro-batches, trained twice: as most notes tell it, and with `UpdateCycle`.

63 samples with the labels 1 … 63 and the inputs (0, log x, 5x). A small network is trained for 10 epochs on whole batches by the
plain loop; that is the truth. Then the same batches are split into micro-batches and trained again from the same start:

  naive        loss / k, backward; a step after every k micro-batches
  UpdateCycle  cycle.backward(loss, count), then cycle.step()

The table shows how far the parameters end up from the truth, as a share of the way that training took them. 63 samples do not
divide evenly into batches of 32 or 30, so the last cycle of an epoch is smaller: there the naive way weighs its micro-batches
wrong, or does not step and leaks into the next epoch. Batches of 21 divide evenly, and the naive way is right.

    python examples/update_cycle.py [--dropout 0.2] [--epochs 10]
"""

import argparse
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from instep import UpdateCycle, keys
from instep.data import Order

SAMPLES = 63
SEED = 0
# (micro-batch size, update cycle): the same effective batch within each line
SPLITS = [[(16, 2), (8, 4), (4, 8), (1, 32)], [(15, 2), (10, 3), (5, 6)], [(7, 3), (3, 7)]]


class FFNN(nn.Module):
    """3 inputs, two hidden layers of 5, 1 output; every parameter drawn uniformly."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 5),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(5, 5),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(5, 1),
        )
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output.squeeze(1)


def samples() -> tuple[Tensor, Tensor]:
    labels = torch.arange(1, SAMPLES + 1, dtype=torch.float64)
    return torch.stack([torch.zeros_like(labels), labels.log(), 5 * labels], dim=1), labels


def micro_batches(size: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch in pieces of `size`, the last one smaller; the order depends on the epoch alone."""
    x, y = samples()
    order = torch.from_numpy(Order(SAMPLES, seed=SEED, epoch=epoch)[:].copy())
    for places in order.split(size):
        yield x[places], y[places]


Train = Callable[[nn.Module, torch.optim.Optimizer, int, int, int], None]


def whole(model: nn.Module, optimizer: torch.optim.Optimizer, size: int, k: int, epochs: int) -> None:
    """The plain loop, a batch at once."""
    for epoch in range(epochs):
        for x, y in micro_batches(size * k, epoch):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


def naive(model: nn.Module, optimizer: torch.optim.Optimizer, size: int, k: int, epochs: int) -> None:
    for epoch in range(epochs):
        for i, (x, y) in enumerate(micro_batches(size, epoch)):
            loss = nn.functional.mse_loss(model(x), y) / k
            loss.backward()
            if (i + 1) % k == 0:
                optimizer.step()
                optimizer.zero_grad()


def with_update_cycle(model: nn.Module, optimizer: torch.optim.Optimizer, size: int, k: int, epochs: int) -> None:
    cycle = UpdateCycle(optimizer)
    last = -(-SAMPLES // size) - 1
    for epoch in range(epochs):
        for i, (x, y) in enumerate(micro_batches(size, epoch)):
            cycle.backward(nn.functional.mse_loss(model(x), y), count=len(x))
            if (i + 1) % k == 0 or i == last:
                cycle.step()


def start(dropout: float) -> FFNN:
    keys.seed_torch(keys.for_build(SEED))
    return FFNN(dropout).double()


def trained(train: Train, optimizer: str, size: int, k: int, epochs: int, dropout: float) -> Tensor:
    """All parameters after training, in one vector."""
    model = start(dropout)
    if optimizer == "SGD":
        train(model, torch.optim.SGD(model.parameters(), lr=1e-6), size, k, epochs)
    else:
        train(model, torch.optim.AdamW(model.parameters(), lr=1e-2), size, k, epochs)
    return vector(model)


def vector(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def main() -> None:
    parser = argparse.ArgumentParser(description="Split batches, trained the naive way and with UpdateCycle.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--dropout", type=float, default=0.0, help="masks differ between splits, so nothing is equal then")
    arguments = parser.parse_args()
    print(f"{SAMPLES} samples, {arguments.epochs} epochs. Largest difference of a parameter from whole-batch training,")
    print("as a share of the largest change that training made:\n")
    print(f"{'optimizer':<10}{'batch':>6}{'micro-batch':>13}{'update cycle':>14}{'naive':>12}{'UpdateCycle':>14}")
    for optimizer in ("SGD", "AdamW"):
        for splits in SPLITS:
            batch = splits[0][0] * splits[0][1]
            truth = trained(whole, optimizer, batch, 1, arguments.epochs, arguments.dropout)
            change = (truth - vector(start(arguments.dropout))).abs().max()
            for size, k in splits:
                off = [
                    (trained(train, optimizer, size, k, arguments.epochs, arguments.dropout) - truth).abs().max() / change
                    for train in (naive, with_update_cycle)
                ]
                print(f"{optimizer:<10}{batch:>6}{size:>13}{k:>14}{off[0]:>12.2%}{off[1]:>14.0e}")
        print()


if __name__ == "__main__":
    main()
