# kind: second_phase
# expect: parameter-not-optimized
# why: The optimizer is built while the trunk is frozen; stages unfrozen at epochs 4 and 7 get gradients but are in no optimizer.
"""Rotation pretext task, then transfer to a small labelled set with gradual unfreezing."""
import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE = 16


def make_images(n: int, gen: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Gray images of four shapes under a light that falls from the top."""
    labels = torch.randint(0, 4, (n,), generator=gen)
    axis = torch.linspace(-1, 1, SIDE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    shift = (torch.rand(n, 2, 1, 1, generator=gen) - 0.5) * 0.5
    dy, dx = yy - shift[:, 0], xx - shift[:, 1]
    r = (dx**2 + dy**2).sqrt()
    disc = (r < 0.45).float()
    ring = ((r > 0.3) & (r < 0.5)).float()
    cross = (((dx.abs() < 0.14) | (dy.abs() < 0.14)) & (r < 0.55)).float()
    box = ((dx.abs() < 0.4) & (dy.abs() < 0.4)).float()
    shapes = torch.stack([disc, ring, cross, box], 1)
    img = 1.5 * shapes[torch.arange(n), labels] * (1.2 - 0.4 * yy)
    img = img + 0.15 * (1 - yy) + 0.25 * torch.randn(n, SIDE, SIDE, generator=gen)
    return img.unsqueeze(1), labels


class Trunk(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        dims = [1, width, width * 2, width * 2]
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, stride=1 if i == 0 else 2, padding=1), nn.GroupNorm(4, b), nn.ReLU())
            for i, (a, b) in enumerate(zip(dims[:-1], dims[1:]))
        )
        self.out_features = dims[-1] * (SIDE // 4) ** 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = stage(x)
        return x.flatten(1)


class Classifier(nn.Module):
    def __init__(self, trunk: Trunk, classes: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Sequential(nn.Linear(trunk.out_features, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.trunk(x))


def pretext(trunk: Trunk, images: torch.Tensor, epochs: int) -> None:
    net = Classifier(trunk, 4)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-4)
    loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True, drop_last=True)
    net.train()
    for epoch in range(epochs):
        total = 0.0
        for (x,) in loader:
            turns = torch.randint(0, 4, (len(x),))
            rotated = torch.stack([torch.rot90(img, int(k), (1, 2)) for img, k in zip(x, turns)])
            loss = F.cross_entropy(net(rotated), turns)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"pretext {epoch} loss {total / len(loader):.4f}")


@torch.no_grad()
def accuracy(net: nn.Module, loader: DataLoader) -> float:
    net.eval()
    hits, seen = 0, 0
    for x, y in loader:
        hits += (net(x).argmax(1) == y).sum().item()
        seen += len(y)
    return hits / seen


class FineTuner:
    """Trains the head first; `unfreeze` maps an epoch to the trunk stages that join from then on."""

    def __init__(self, net: Classifier, lr: float, epochs: int, unfreeze: dict[int, list[int]]) -> None:
        self.net, self.epochs, self.unfreeze = net, epochs, unfreeze
        net.trunk.requires_grad_(False)
        self.opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=lr, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda e: 0.5 * (1 + math.cos(math.pi * e / epochs)))

    def on_epoch_start(self, epoch: int) -> None:
        for index in self.unfreeze.get(epoch, []):
            self.net.trunk.stages[index].requires_grad_(True)

    def fit(self, train: DataLoader, valid: DataLoader) -> None:
        for epoch in range(self.epochs):
            self.on_epoch_start(epoch)
            self.net.train()
            total = 0.0
            for x, y in train:
                self.opt.zero_grad()
                loss = F.cross_entropy(self.net(x), y)
                loss.backward()
                self.opt.step()
                total += loss.item()
            self.sched.step()
            trainable = sum(p.numel() for p in self.net.parameters() if p.requires_grad)
            print(f"tune {epoch} loss {total / len(train):.4f} acc {accuracy(self.net, valid):.3f} trainable {trainable}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretext-epochs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    gen = torch.Generator().manual_seed(args.seed + 1)
    unlabelled, _ = make_images(2048, gen)
    train_x, train_y = make_images(1024, gen)
    valid_x, valid_y = make_images(512, gen)
    mean, std = unlabelled.mean(), unlabelled.std()
    unlabelled, train_x, valid_x = ((t - mean) / std for t in (unlabelled, train_x, valid_x))

    trunk = Trunk()
    pretext(trunk, unlabelled, args.pretext_epochs)
    net = Classifier(trunk, 4)
    train = DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(valid_x, valid_y), batch_size=128)
    FineTuner(net, args.lr, args.epochs, unfreeze={4: [2], 7: [1]}).fit(train, valid)


if __name__ == "__main__":
    main()
