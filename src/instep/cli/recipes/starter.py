"""A training run, written down. To train it:

instep train train.py
instep train train.py --lr 0.01 --epochs 5
instep train train.py --help           every option; they are the parameters of build()
instep train train.py --dry-run        tries it for two updates and writes nothing
"""

from torch import nn
from torch.nn import functional as F
from torch.optim import AdamW

import instep


def build(
    lr: float = 3e-3,
    epochs: int = 15,
    batch_size: int = 64,
    hidden: int = 128,
    dropout: float = 0.2,
    seed: int = 0,
) -> instep.Trainer:
    """A small network that reads handwritten digits.

    Args:
        lr: The highest learning rate of the one-cycle.
        epochs: How often each sample is seen.
        batch_size: Samples per update.
        hidden: Width of the hidden layer.
        dropout: Share of the hidden layer that is switched off while training.
        seed: Decides everything random: first weights, order, dropout.
    """
    # The data: tensors, arrays, or any map-style Dataset. These are 1,797 images of 8 × 8 pixels and the digits they show.
    images, labels = instep.data.digits()

    # The model: any nn.Module. It is built under the seed, so the first weights are the same each time.
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, 10),
    )

    # The run: everything that decides its result stands here.
    return instep.Trainer(
        model,
        loss=F.cross_entropy,  # loss(model(x), y); for anything else: objective=, a function (model, batch) -> Loss
        optimizer=AdamW(model.parameters(), lr=lr / 25, fused=True),  # the one-cycle below starts there and rises to lr
        train=(images, labels),
        valid=0.2,  # holds out a fifth; or data of its own: valid=(images, labels)
        epochs=epochs,
        batch_size=batch_size,
        schedule=instep.OneCycle(max_lr=lr),
        metrics="accuracy",
        seed=seed,
    )
