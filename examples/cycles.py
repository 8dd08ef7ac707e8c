"""Training in cycles: a range test, one cycle at the learning rate that it suggests, a new range test, and so on.

python examples/cycles.py
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from instep import Trainer, data


def build(epochs: int = 3) -> Trainer:
    torch.manual_seed(0)
    images, labels = data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return Trainer(  # without a schedule: each cycle has its own
        model,
        loss=cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters()),
        train=(images, labels),
        valid=0.2,
        metrics="accuracy",
        epochs=epochs,  # of each cycle
        batch_size=64,
        restore_best=True,
        progress=False,
    )


def main() -> None:
    trainer = build()
    print(trainer.find_lr(low=1e-5, steps=60))
    print(trainer.fit_cycles(max_cycles=3, low=1e-5, steps=60))
    print(f"accuracy {trainer.evaluate()['valid/accuracy']:.1%}")


if __name__ == "__main__":
    main()
