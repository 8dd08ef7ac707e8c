# kind: in a second phase
# expect: nothing
# like: silent-partial-load
# why: strict=False is used, but only the new head (a few per cent of the weights) is missing; the script checks the missing
#      and unexpected names and stops if anything else was not loaded.
"""Satellite tiles: rotation pretraining, then land-use classes with the pretrained trunk."""
import argparse
import io

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
SIZE, LAND = 16, 4


def tiles(count, generator):
    """Stripes under a sun gradient (fields), blocks (town), smooth (water) and speckle (wood)."""
    kind = torch.randint(0, LAND, (count,), generator=generator)
    ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    phase = 6.28 * torch.rand(count, 1, 1, generator=generator)
    noise = torch.randn(count, SIZE, SIZE, generator=generator)
    stripes = torch.sin(1.2 * xs + phase)
    blocks = torch.sign(torch.sin(0.9 * xs + phase) * torch.sin(0.9 * ys + phase))
    smooth = F.avg_pool2d(F.pad(noise.unsqueeze(1), (3, 3, 3, 3), mode="reflect"), 7, stride=1).squeeze(1) * 4
    choice = torch.stack([stripes, blocks, smooth, noise], dim=1)
    picture = choice[torch.arange(count), kind] + 0.09 * (ys - SIZE / 2) + 0.5 * torch.randn(
        count, SIZE, SIZE, generator=generator)
    return picture.unsqueeze(1), kind


class Net(nn.Module):
    def __init__(self, task, classes):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.task = task
        self.heads = nn.ModuleDict({task: nn.Linear(128, classes)})

    def forward(self, x):
        return self.heads[self.task](self.trunk(x))


def rotated(x):
    turn = torch.randint(0, 4, (len(x),))
    return torch.stack([torch.rot90(p, int(k), (1, 2)) for p, k in zip(x, turn)]), turn


def epoch_of(model, optimizer, x, y, rotate, batch=32):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(x)).split(batch):
        bx, by = rotated(x[idx]) if rotate else (x[idx], y[idx])
        loss = F.cross_entropy(model(bx), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    return total / len(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(91)
    generator = torch.Generator().manual_seed(91)
    ux, _ = tiles(1536, generator)
    x, y = tiles(1024, generator)
    vx, vy = tiles(512, generator)

    pretrain = Net("rotation", 4)
    optimizer = torch.optim.Adam(pretrain.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        print(f"rotation {epoch}: loss {epoch_of(pretrain, optimizer, ux, None, True):.4f}")
    file = io.BytesIO()
    torch.save(pretrain.state_dict(), file)
    file.seek(0)

    model = Net("land", LAND)
    result = model.load_state_dict(torch.load(file), strict=False)
    assert all(k.startswith("heads.") for k in result.missing_keys + result.unexpected_keys), result
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        loss = epoch_of(model, optimizer, x, y, False)
        model.eval()
        with torch.no_grad():
            acc = (model(vx).argmax(1) == vy).float().mean().item()
        print(f"land use {epoch}: loss {loss:.4f}  accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
