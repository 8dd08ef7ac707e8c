"""A contrastive loss: two views of the same image should be closer to each other than to all other images of the batch.

    python examples/contrastive.py

Such a loss compares the samples of a batch with each other, so it is another loss on a part of a batch: leave `update_cycle` at
1. The labels are used only at the end, to look whether neighbours show the same digit.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from instep import Loss, OneCycle, Trainer, data

Views = tuple[Tensor, Tensor]


def two_views(image: Tensor) -> Views:
    """Shifted, noisier and brighter at random; seeded by the place of the sample, so any worker makes the same ones."""
    return one_view(image), one_view(image)


def one_view(image: Tensor) -> Tensor:
    shift = torch.randint(-1, 2, (2,)).tolist()
    return image.roll(shift, dims=(1, 2)) * (0.8 + 0.4 * torch.rand(1)) + 0.1 * torch.randn_like(image)


def objective(model: nn.Module, views: Views) -> Loss:
    """Which of all second views belongs to each first one? The right answer for row i is column i."""
    first, second = (normalize(model(view), dim=1) for view in views)
    likeness = first @ second.T / 0.2
    right = torch.arange(len(likeness), device=likeness.device)
    return Loss(cross_entropy(likeness, right), len(right), output=likeness, target=right)


def build(lr: float = 0.01, epochs: int = 3) -> Trainer:
    torch.manual_seed(0)
    images, _ = data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    return Trainer(
        model,
        objective=objective,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=data.source(images, transform=two_views),
        epochs=epochs,
        batch_size=128,
        progress=False,
    )


def same_digit(model: nn.Module) -> float:
    """How often the nearest other image shows the same digit, for images that are moved by a pixel."""
    images, labels = data.digits()
    with torch.no_grad():
        codes, moved = normalize(model(images), dim=1), normalize(model(images.roll(1, dims=3)), dim=1)
    return float((labels[(moved @ codes.T).fill_diagonal_(-1).argmax(1)] == labels).float().mean())


def main() -> None:
    trainer = build()
    before = same_digit(trainer.model)
    losses = [float(update.loss) for update in trainer.updates()]
    print(f"loss from {losses[0]:.2f} to {losses[-1]:.2f}")
    print(f"the image nearest to a moved one shows the same digit: {before:.0%} before, {same_digit(trainer.model):.0%} after")


if __name__ == "__main__":
    main()
