"""Two processes, the same result. Nothing in the file speaks of processes: the launcher does.

    python examples/two_processes.py
    torchrun --nproc-per-node 2 examples/two_processes.py

Both print the same numbers. 1,437 samples in batches of 50 on two processes: nothing divides evenly.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from instep import OneCycle, Trainer, data


def build(lr: float = 0.01, epochs: int = 2) -> Trainer:
    torch.manual_seed(0)
    images, labels = data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9),
        schedule=OneCycle(max_lr=10 * lr),
        train=(images, labels),
        valid=0.2,
        metrics="accuracy",
        epochs=epochs,
        batch_size=50,  # of an update, over all processes
        progress=False,
    )


def main() -> None:
    trainer = build()
    trainer.fit()
    found = trainer.evaluate()  # on all processes: each takes its part; rank 0 prints
    if trainer.rank == 0:
        weight = trainer.model[1].weight.norm()
        print(f"{trainer.processes} processes: valid loss {found['valid/loss']:.4f}, norm of the weights {weight:.4f}")


if __name__ == "__main__":
    main()
