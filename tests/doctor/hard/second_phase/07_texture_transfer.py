# kind: in a second phase
# expect: trained-in-eval-mode
# why: the last evaluation of phase one leaves the network in eval mode and the fine-tuning loop never calls train(), so
#      dropout is off and BatchNorm does not learn the statistics of the new domain.
"""Texture classification: train on clean pictures, then fine-tune on pictures of another camera."""
import argparse
import itertools

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SIZE, CLASSES = 16, 5


def textures(count, generator, camera=False):
    label = torch.randint(0, CLASSES, (count,), generator=generator)
    angle = label.float() * torch.pi / CLASSES + 0.1 * torch.randn(count, generator=generator)
    ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    phase = 6.28 * torch.rand(count, generator=generator)
    along = xs * torch.cos(angle)[:, None, None] + ys * torch.sin(angle)[:, None, None]
    picture = torch.sin(1.1 * along + phase[:, None, None]) + 0.7 * torch.randn(count, SIZE, SIZE, generator=generator)
    if camera:
        vignette = 1.2 - 0.05 * ((xs - 8) ** 2 + (ys - 8) ** 2).sqrt()
        picture = 0.8 * picture * vignette + 0.3
    return TensorDataset(picture.unsqueeze(1), label)


class TextureNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 12, 5, padding=2), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(96, CLASSES),
        )


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    x, y = data.tensors
    return (model(x).argmax(1) == y).float().mean().item()


def step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--finetune-steps", type=int, default=240)
    args = parser.parse_args()
    torch.manual_seed(41)
    generator = torch.Generator().manual_seed(41)
    source, source_valid = textures(1536, generator), textures(512, generator)
    target, target_valid = textures(768, generator, camera=True), textures(512, generator, camera=True)

    model = TextureNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(source, batch_size=32, shuffle=True)
    for epoch in range(args.epochs):
        model.train()
        losses = [step(model, optimizer, x, y) for x, y in loader]
        print(f"source epoch {epoch}: loss {sum(losses) / len(losses):.4f}  "
              f"accuracy {accuracy(model, source_valid):.3f}")
    print(f"before fine-tuning: accuracy on the new camera {accuracy(model, target_valid):.3f}")

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    stream = endless(DataLoader(target, batch_size=32, shuffle=True))
    losses = []
    for i, (x, y) in enumerate(itertools.islice(stream, args.finetune_steps), start=1):
        losses.append(step(model, optimizer, x, y))
        if i % 60 == 0:
            print(f"target step {i}: loss {sum(losses[-60:]) / 60:.4f}")
    print(f"after fine-tuning: accuracy on the new camera {accuracy(model, target_valid):.3f}")


if __name__ == "__main__":
    main()
