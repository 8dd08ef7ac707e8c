"""The built-in recipe, what `instep train` does without a file: a small network learns to read handwritten digits.

It is written like a file of your own: a model, the data, and `build`, whose parameters are the options of the command.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW

from instep.data import digits
from instep.schedules.one_cycle import OneCycle
from instep.trainer import Trainer


class Wobble(nn.Module):
    """Turns, stretches and shifts each image a little while training, so that no two epochs are alike."""

    def __init__(self, amount: float) -> None:
        super().__init__()
        self.amount = amount

    def forward(self, images: Tensor) -> Tensor:
        if not self.training or self.amount == 0:
            return images
        n = len(images)
        shapes = torch.eye(2, device=images.device) + self.amount * torch.randn(n, 2, 2, device=images.device)
        shifts = 0.6 * self.amount * torch.randn(n, 2, 1, device=images.device)  # in halves of an image
        grid = F.affine_grid(torch.cat([shapes, shifts], dim=2), list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, align_corners=False)


class DigitReader(nn.Module):
    """Three convolutions over an 8 × 8 image, then one layer that names the digit."""

    def __init__(self, width: int, dropout: float, wobble: float) -> None:
        super().__init__()
        self.wobble = Wobble(wobble)
        self.look = nn.Sequential(
            *_convolution(1, width),
            *_convolution(width, 2 * width),
            nn.MaxPool2d(2),
            *_convolution(2 * width, 2 * width),
        )
        self.name = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(2 * width * 4 * 4, 10))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.name(self.look(self.wobble(images)))
        return scores


def _convolution(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """GroupNorm and not BatchNorm: it looks at one sample at a time, so a batch may be split without changing the result."""
    return nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(min(4, outputs), outputs), nn.ReLU()


def build(
    lr: float = 3e-3,
    epochs: int = 20,
    batch_size: int = 64,
    width: int = 16,
    dropout: float = 0.2,
    wobble: float = 0.1,
    weight_decay: float = 0.01,
    valid: float = 0.2,
    threads: int = 1,
    seed: int = 0,
) -> Trainer:
    """Learn to read handwritten digits: 1,797 images of 8 × 8 pixels that come with Instep, a fifth of them held out.

    Args:
        lr: The highest learning rate of the one-cycle.
        epochs: How often each image is seen.
        batch_size: Images per update.
        width: Channels of the first convolution; the others have twice as many.
        dropout: Share of the features that is switched off while training, against overfitting.
        wobble: How much images are turned, stretched and shifted while training; 0 leaves them alone.
        weight_decay: How strongly AdamW pulls the weights to zero.
        valid: Share of the images that is held out for validation.
        threads: CPU threads; in so small a network more of them mostly wait for each other.
        seed: Decides the first weights, the order of the images, dropout and wobble.
    """
    # On two cores that others use too, two threads took 43 s where one takes 3: OpenMP's threads spin while they wait.
    torch.set_num_threads(threads)
    model = DigitReader(width, dropout, wobble)
    return Trainer(
        model,
        loss=F.cross_entropy,
        optimizer=AdamW(model.parameters(), lr=lr / 25, weight_decay=weight_decay, fused=True),  # where the one-cycle starts
        train=digits(),
        valid=valid,
        epochs=epochs,
        batch_size=batch_size,
        schedule=OneCycle(max_lr=lr),
        metrics="accuracy",
        monitor="valid/accuracy",
        seed=seed,
    )
