"""A GAN on the handwritten digits: two models, two optimizers, two objectives that take turns in every update.

    python examples/gan.py [--epochs 300] [--folder runs/gan] [--picture digits.png]

Deterministic: the same command gives the same picture. With a folder it can be stopped (Ctrl-C) and started again, and ends at
the same weights. While `d` plays, the parameters of `g` take no gradients, and the other way round: the Trainer sees to that.
"""

import argparse
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, softplus

from instep import Loss, Trainer, keys
from instep.data import digits

NOISE, CLASSES = 24, 10


class Generator(nn.Module):
    """From noise and a label to an image of 8 × 8."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(NOISE + CLASSES, 128), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Linear(128, 128), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Linear(128, 64), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        images: Tensor = self.body(torch.cat([noise, one_hot(labels, CLASSES)], dim=1))
        return images.view(-1, 1, 8, 8)


class Discriminator(nn.Module):
    """How real an image looks for its label."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(64 + CLASSES, 128), nn.LeakyReLU(0.2), nn.Dropout(0.2),
            nn.Linear(128, 128), nn.LeakyReLU(0.2), nn.Dropout(0.2),
            nn.Linear(128, 1),
        )  # fmt: skip

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        score: Tensor = self.body(torch.cat([images.flatten(1), one_hot(labels, CLASSES)], dim=1))
        return score.squeeze(1)


def discriminate(models: nn.ModuleDict, batch: tuple[Tensor, Tensor]) -> Loss:
    """Tell images from what the generator makes."""
    images, labels = batch
    fakes = models["g"](torch.randn(len(labels), NOISE), labels)
    real, fake = models["d"](images, labels), models["d"](fakes, labels)
    return Loss((softplus(-real) + softplus(fake)).mean(), len(labels))


def generate(models: nn.ModuleDict, batch: tuple[Tensor, Tensor]) -> Loss:
    """Make images that pass for real."""
    labels = batch[1]
    fakes = models["g"](torch.randn(len(labels), NOISE), labels)
    return Loss(softplus(-models["d"](fakes, labels)).mean(), len(labels))


def build(epochs: int = 300, seed: int = 0) -> Trainer:
    """The run: everything that decides its result."""
    keys.seed_all(keys.for_build(seed))
    return Trainer(
        {"g": Generator(), "d": Discriminator()},
        objective={"d": discriminate, "g": generate},
        optimizer={
            "d": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, betas=(0.5, 0.99), fused=True),
            "g": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, betas=(0.5, 0.99), fused=True),
        },
        train=digits(),
        epochs=epochs,
        batch_size=128,
        ema=0.995,
        seed=seed,
        device="cpu",
    )


def samples(trainer: Trainer) -> Tensor:
    """Six images of each digit, as one picture of 6 rows, by the averaged generator."""
    assert trainer.ema is not None
    generator = trainer.ema.module["g"]  # type: ignore[index]
    noise = torch.randn(60, NOISE, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        images = generator(noise, torch.arange(10).repeat(6))
    framed = nn.functional.pad(images.view(6, 10, 8, 8), (1, 1, 1, 1))
    return framed.permute(0, 2, 1, 3).reshape(60, 100)


def half_blocks(picture: Tensor) -> str:
    """Two rows of pixels in a line of text, in 24 shades of a terminal's grey; ink is bright."""
    shades: list[list[int]] = (232 + (picture.clamp(0, 1) * 23).round().int()).tolist()
    lines = []
    for upper, lower in zip(shades[::2], shades[1::2], strict=True):
        lines.append("".join(f"\033[38;5;{u};48;5;{v}m▀" for u, v in zip(upper, lower, strict=True)) + "\033[0m")
    return "\n".join(lines)


def write_png(picture: Tensor, path: Path, scale: int = 8) -> None:
    """A grey PNG: a header, and the rows, each after a 0, compressed."""
    pixels = (255 - picture.clamp(0, 1) * 255).round().byte()
    pixels = pixels.repeat_interleave(scale, 0).repeat_interleave(scale, 1)
    rows = b"".join(b"\0" + bytes(row.tolist()) for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def main() -> None:
    parser = argparse.ArgumentParser(description="A GAN on the handwritten digits.")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="keep the run there, and go on with it")
    parser.add_argument("--picture", type=Path, default=Path("gan.png"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # small models; and the same bits on every machine of a kind
    trainer = build(options.epochs)
    if options.folder is not None:
        trainer.run.set_folder(options.folder)
    trainer.fit()
    picture = samples(trainer)
    write_png(picture, options.picture)
    print(half_blocks(picture))
    last = trainer.history.updates[-1]
    print(f"step {last['step']}: loss/d {last['loss/d']:.3f}, loss/g {last['loss/g']:.3f}; the picture is in {options.picture}")


if __name__ == "__main__":
    main()
