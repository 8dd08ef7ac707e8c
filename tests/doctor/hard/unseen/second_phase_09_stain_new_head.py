# kind: in a second phase
# expect: frozen-batchnorm-moves
# why: the body is frozen by requires_grad only and model.train() at the start of every epoch lets its BatchNorm layers
#      take over the statistics of the second laboratory, so the "frozen" features change.
"""Tissue patches: train on one laboratory, then a new head on the frozen body for another laboratory."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def patches(count, generator, laboratory):
    """Cells (dots) of different density and size in three colour channels."""
    size = 16
    kind = torch.randint(0, 4, (count,), generator=generator)
    field = torch.randn(count, 1, size, size, generator=generator)
    smooth = F.avg_pool2d(F.pad(field, (2, 2, 2, 2), mode="reflect"), 5, stride=1)
    coarse = (kind % 2 == 1)[:, None, None, None]
    texture = torch.where(coarse, 4.0 * smooth, field)
    texture = torch.where((kind >= 2)[:, None, None, None], texture.abs() - 0.8, texture)
    stain = torch.tensor([[1.0, 0.6, 0.3], [0.5, 1.0, 0.8]])[laboratory].view(1, 3, 1, 1)
    tint = torch.tensor([[0.0, 0.0, 0.0], [0.5, -0.4, 0.2]])[laboratory].view(1, 3, 1, 1)
    x = stain * texture + tint + 0.3 * torch.randn(count, 3, size, size, generator=generator)
    return x, kind


class PatchNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.head = nn.Linear(96, classes)

    def forward(self, x):
        return self.head(self.body(x))


def train(name, model, optimizer, data, valid, epochs, batch=32):
    x, y = data
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[idx]), y[idx])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        print(f"{name} epoch {epoch}: loss {total / len(x):.4f}  accuracy {score(model, valid):.3f}")


@torch.no_grad()
def score(model, data):
    model.eval()
    return (model(data[0]).argmax(1) == data[1]).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--head-epochs", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(36)
    generator = torch.Generator().manual_seed(36)
    first, first_valid = patches(1536, generator, 0), patches(512, generator, 0)
    second, second_valid = patches(1024, generator, 1), patches(512, generator, 1)

    model = PatchNet()
    train("first", model, torch.optim.Adam(model.parameters(), lr=2e-3), first, first_valid, args.epochs)

    # second laboratory: the body is a fixed feature extractor, only a new head is trained
    for p in model.body.parameters():
        p.requires_grad = False
    model.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(96, 4))
    train("second", model, torch.optim.Adam(model.head.parameters(), lr=3e-3), second, second_valid, args.head_epochs)


if __name__ == "__main__":
    main()
