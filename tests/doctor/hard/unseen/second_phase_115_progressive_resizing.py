# kind: second_phase
# expect: nothing
# why: might be accused of schedule-wrong-unit, one-cycle-max-lr and optimizer-recreated; each phase makes a new loader and a new OneCycleLR of exactly its number of steps around the one optimizer, whose rate has run down by then, and the best weights are chosen among those trained and validated at full size.
"""Small images first, full size last; one optimizer, one cycle of the rate per phase."""
import copy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

FULL, CLASSES = 24, 6


class Phase(NamedTuple):
    size: int
    batch: int
    epochs: int
    max_lr: float


PHASES = [Phase(8, 128, 5, 6e-3), Phase(16, 64, 4, 4e-3), Phase(FULL, 64, 4, 2e-3)]


class Shrink:
    """Collate function that stacks the samples and averages pixels down to the size of the phase."""

    def __init__(self, size):
        self.size = size

    def __call__(self, samples):
        images = torch.stack([image for image, _ in samples])
        labels = torch.stack([label for _, label in samples])
        return F.adaptive_avg_pool2d(images, self.size), labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [1, 8, 16, 32]
        self.stages = nn.Sequential(*[
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
            for a, b in zip(widths, widths[1:])])
        self.head = nn.Linear(2 * widths[-1], CLASSES)

    def forward(self, x):
        x = self.stages(x)
        pooled = torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))], dim=1)
        return self.head(pooled)


def scenes(n, prototypes, gen):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    coarse = prototypes[y] + 1.2 * torch.randn(n, 1, 6, 6, generator=gen)
    images = F.interpolate(coarse, size=(FULL, FULL), mode="bilinear", align_corners=False)
    return images + 0.5 * torch.randn(n, 1, FULL, FULL, generator=gen), y


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = torch.cat([model(part) for part in x.split(200)])
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def train_phase(model, optimizer, data, phase, after_epoch):
    loader = DataLoader(data, batch_size=phase.batch, shuffle=True, drop_last=True, collate_fn=Shrink(phase.size))
    schedule = OneCycleLR(optimizer, max_lr=phase.max_lr, epochs=phase.epochs, steps_per_epoch=len(loader))
    for epoch in range(phase.epochs):
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        after_epoch(phase, epoch)


class KeepBest:
    """Remembers the best weights, but only among those trained at full size."""

    def __init__(self, model, valid):
        self.model, self.valid = model, valid
        self.loss, self.state = float("inf"), None

    def __call__(self, phase, epoch):
        images, labels = self.valid
        loss, accuracy = evaluate(self.model, F.adaptive_avg_pool2d(images, phase.size), labels)
        print(f"size {phase.size:2d} epoch {epoch} valid loss {loss:.3f} accuracy {accuracy:.3f}")
        if phase.size == FULL and loss < self.loss:
            self.loss, self.state = loss, copy.deepcopy(self.model.state_dict())


def main():
    torch.set_num_threads(1)
    torch.manual_seed(23)
    gen = torch.Generator().manual_seed(23)
    prototypes = torch.randn(CLASSES, 1, 6, 6, generator=gen)
    train, valid, test = (scenes(n, prototypes, gen) for n in (2200, 500, 500))
    mean, std = train[0].mean(), train[0].std()
    train, valid, test = (((x - mean) / std, y) for x, y in (train, valid, test))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-2)
    keep = KeepBest(model, valid)
    for phase in PHASES:
        train_phase(model, optimizer, TensorDataset(*train), phase, keep)
    model.load_state_dict(keep.state)
    print("test loss %.3f accuracy %.3f" % evaluate(model, *test))


if __name__ == "__main__":
    main()
