"""Segmentation with ignored pixels: is a pixel ink or paper? Pixels at the border of the ink have no label.

    python examples/segmentation.py

Each image has another number of labelled pixels. The loss is a mean over those alone, and the update cycle counts them: a batch
that is split gives the same update. Metrics leave out what the loss ignores.
"""

import torch
from torch import Tensor, nn

from instep import OneCycle, Trainer, data

IGNORED = 255


def label(images: Tensor) -> Tensor:
    """1 for ink, 0 for paper, 255 where one cannot say."""
    pixels = images.squeeze(1)
    masks = (pixels > 0.5).long()
    masks[(pixels > 0.3) & (pixels < 0.7)] = IGNORED
    return masks


def build(lr: float = 0.02, epochs: int = 5, update_cycle: int = 4) -> Trainer:
    torch.manual_seed(0)
    images, _ = data.digits()
    noisy = images + 0.3 * torch.randn(images.shape)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))
    return Trainer(
        model,
        loss=nn.CrossEntropyLoss(ignore_index=IGNORED),
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=(noisy, label(images)),
        valid=0.2,
        metrics=("accuracy", "iou"),
        epochs=epochs,
        batch_size=64,
        update_cycle=update_cycle,
        progress=False,
    )


def main() -> None:
    masks = label(data.digits()[0])
    print(f"{(masks == IGNORED).float().mean():.0%} of the pixels have no label")
    trainer = build()
    trainer.fit()
    found = trainer.evaluate()
    print(f"accuracy {found['valid/accuracy']:.1%}, intersection over union {found['valid/iou']:.2f}")
    whole = build(update_cycle=1)
    whole.fit()
    weights, others = trainer.model.state_dict(), whole.model.state_dict()
    off = max(float((weights[name] - others[name]).abs().max()) for name in weights)
    print("the same weights as with whole batches:", off < 1e-3)


if __name__ == "__main__":
    main()
