"""The example that the others start from: a small network learns the handwritten digits that come with Instep.

python examples/base.py
instep train examples/base.py --lr 0.02     # the parameters of build() are options of the command
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from instep import OneCycle, Trainer, data


def build(lr: float = 0.01, epochs: int = 5) -> Trainer:
    torch.manual_seed(0)
    images, labels = data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=(images, labels),
        valid=0.2,
        metrics="accuracy",
        epochs=epochs,
        batch_size=64,
        progress=False,
    )


def main() -> None:
    trainer = build()
    print(trainer)
    trainer.fit()
    found = trainer.evaluate()
    print(f"valid loss {found['valid/loss']:.3f}, accuracy {found['valid/accuracy']:.1%}")


if __name__ == "__main__":
    main()
