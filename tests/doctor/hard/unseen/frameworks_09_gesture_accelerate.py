# kind: inside frameworks
# expect: augmented-validation
# why: random_split divides one dataset whose __getitem__ augments, so the validation part is augmented as well and its
#      samples differ every time they are read.
"""Gesture recognition from accelerometer windows with augmentation (Accelerate)."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, random_split

torch.set_num_threads(1)
GESTURES = 5


class Gestures(Dataset):
    """Three-axis recordings; `augment` rolls, scales and jitters a recording."""

    def __init__(self, count, augment=None, seed=0, length=48):
        g = torch.Generator().manual_seed(seed)
        t = torch.linspace(0, 1, length)
        prototypes = torch.stack([
            torch.stack([torch.sin(6.28 * (1 + (k + a) % 4) * t + 0.9 * k * a) for a in range(3)])
            for k in range(GESTURES)
        ])
        self.label = torch.randint(0, GESTURES, (count,), generator=g)
        gain = 0.7 + 0.6 * torch.rand(count, 1, 1, generator=g)
        self.signal = gain * prototypes[self.label] + 1.5 * torch.randn(count, 3, length, generator=g)
        self.augment = augment

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        x = self.signal[i]
        if self.augment is not None:
            x = self.augment(x)
        return x, self.label[i]


class Augment:
    def __init__(self, shift=4, gain=0.2, jitter=0.3):
        self.shift, self.gain, self.jitter = shift, gain, jitter

    def __call__(self, x):
        x = torch.roll(x, int(torch.randint(-self.shift, self.shift + 1, (1,))), dims=-1)
        x = x * (1 + self.gain * (2 * torch.rand(1) - 1))
        return x + self.jitter * torch.randn_like(x)


class GestureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(3, 24, 5, padding=2), nn.BatchNorm1d(24), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(24, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveAvgPool1d(4),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, GESTURES))

    def forward(self, x):
        return self.head(self.conv(x))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    set_seed(4)
    accelerator = Accelerator(cpu=True)
    dataset = Gestures(2560, augment=Augment(), seed=4)
    train, valid = random_split(dataset, [2048, 512], generator=torch.Generator().manual_seed(4))
    model = GestureNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer, train_loader, valid_loader = accelerator.prepare(
        model, optimizer,
        DataLoader(train, batch_size=32, shuffle=True),
        DataLoader(valid, batch_size=128),
    )
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            total += loss.item()
        accelerator.print(f"epoch {epoch}: loss {total / len(train_loader):.4f}  "
                          f"valid acc {accuracy(model, valid_loader):.3f}")


if __name__ == "__main__":
    main()
