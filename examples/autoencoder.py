"""An autoencoder: the input is the target. Images of 64 pixels are squeezed through 6 numbers.

python examples/autoencoder.py
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from instep import OneCycle, Trainer, data

CODE = 6


def objective(model: nn.Module, images: Tensor) -> Tensor:
    """Data without labels needs an objective: `loss=` wants batches (x, y)."""
    return mse_loss(model(images), images)


def build(lr: float = 0.02, epochs: int = 8) -> Trainer:
    torch.manual_seed(0)
    images, _ = data.digits()
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, CODE),
        nn.Linear(CODE, 48), nn.ReLU(), nn.Linear(48, 64), nn.Unflatten(1, (1, 8, 8)),
    )  # fmt: skip
    return Trainer(
        model,
        objective=objective,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=images,
        valid=0.2,
        epochs=epochs,
        batch_size=64,
        progress=False,
    )


def show(pictures: Tensor) -> str:
    """Images beside each other, in letters."""
    rows = pictures.squeeze(1).permute(1, 0, 2).clamp(0, 0.99)
    return "\n".join("  ".join("".join(" .:*#"[int(5 * v)] for v in image) for image in row.tolist()) for row in rows)


def main() -> None:
    trainer = build()
    trainer.fit()
    found = trainer.evaluate()
    images, _ = data.digits()
    nothing = mse_loss(images.mean(0, keepdim=True).expand_as(images), images)
    print(show(images[:6]))
    print(show(trainer.predict(images[:6])))
    print(f"error {found['valid/loss']:.4f}; the mean image would have {nothing:.4f}")


if __name__ == "__main__":
    main()
