"""A model that is shared out: with N processes each holds an N-th of the weights, gradients and optimizer state (FSDP2).

    python examples/sharding.py
    torchrun --nproc-per-node 2 examples/sharding.py

The optimizer is a function of the parameters, since these are shared out first. On one process the model stays whole.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Trainer, data


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(64, 64), nn.Linear(64, 10)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4))  # a unit each

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images.flatten(1))
        for block in self.blocks:
            x = block(x)
        return self.head(x)  # type: ignore[no-any-return]


def build(lr: float = 0.05, epochs: int = 2) -> Trainer:
    torch.manual_seed(0)
    images, labels = data.digits()
    return Trainer(
        Deep(),
        loss=cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
        train=(images, labels),
        valid=0.2,
        metrics="accuracy",
        epochs=epochs,
        batch_size=64,
        shard=True,
        progress=False,
    )


def main() -> None:
    trainer = build()
    held = sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel() for p in trainer.model.parameters())
    total = sum(p.numel() for p in trainer.model.parameters())
    trainer.fit()
    found = trainer.evaluate()
    if trainer.rank == 0:
        share = f"{held / total:.0%} of the weights each"
        print(f"{trainer.processes} processes, {share}: valid loss {found['valid/loss']:.4f}")


if __name__ == "__main__":
    main()
