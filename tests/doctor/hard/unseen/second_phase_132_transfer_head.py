# kind: second_phase
# expect: nothing
# why: Right: the backbone is loaded with strict=False because the head is new on purpose, the new optimizer holds the new head only,
#      the frozen BatchNorm is kept in eval mode by train(), and the best weights are cloned before they are put back.
"""Transfer: pretrain a 1-D convolutional backbone on one set of waveforms, fit a new head on another."""
import math
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 48


class WaveNet(nn.Module):
    def __init__(self, classes, channels=24):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(1, channels, 7, padding=3, bias=False), nn.BatchNorm1d(channels), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(channels, 2 * channels, 5, padding=2, bias=False), nn.BatchNorm1d(2 * channels), nn.ReLU(), nn.MaxPool1d(2),
            nn.AdaptiveAvgPool1d(3), nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(6 * channels, classes))
        self.frozen = False

    def freeze_backbone(self):
        self.frozen = True
        self.backbone.requires_grad_(False)
        return self

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, x):
        return self.head(self.backbone(x))


class BestWeights:
    def __init__(self):
        self.score, self.weights = -math.inf, None

    def update(self, score, model):
        if score > self.score:
            self.score = score
            self.weights = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def restore(self, model):
        model.load_state_dict(self.weights)


class Fitter:
    def __init__(self, model, lr, epochs, steps_per_epoch):
        self.model, self.epochs = model, epochs
        self.optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr, weight_decay=1e-2)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=3 * lr, total_steps=epochs * steps_per_epoch)
        self.best = BestWeights()

    def fit(self, name, train_loader, valid_loader):
        for epoch in range(self.epochs):
            self.model.train()
            for x, y in train_loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
                self.scheduler.step()
            accuracy = self.accuracy(valid_loader)
            self.best.update(accuracy, self.model)
            print(f"{name} epoch {epoch:2d}  accuracy {accuracy:.3f}")
        self.best.restore(self.model)
        print(f"{name} best {self.best.score:.3f}, after restoring {self.accuracy(valid_loader):.3f}")

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        right, n = 0, 0
        for x, y in loader:
            right += (self.model(x).argmax(1) == y).sum().item()
            n += len(y)
        return right / n


def waveforms(n, shapes, gen):
    """Each class is one frequency with one amount of the third harmonic."""
    y = torch.randint(0, len(shapes), (n,), generator=gen)
    freq, third = torch.tensor(shapes)[y].unbind(1)
    t = torch.linspace(0, 1, LENGTH)
    phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
    angle = 2 * math.pi * freq.unsqueeze(1) * t + phase
    x = torch.sin(angle) + third.unsqueeze(1) * torch.sin(3 * angle) + 0.6 * torch.randn(n, LENGTH, generator=gen)
    return TensorDataset(x.unsqueeze(1), y)


def loaders(shapes, n_train, n_valid, gen):
    train = DataLoader(waveforms(n_train, shapes, gen), batch_size=32, shuffle=True, drop_last=True)
    return train, DataLoader(waveforms(n_valid, shapes, gen), batch_size=128)


def load_backbone(model, path):
    weights = torch.load(path, weights_only=True)
    weights = {k: v for k, v in weights.items() if not k.startswith("head.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and all(k.startswith("head.") for k in missing)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(6)
    gen = torch.Generator().manual_seed(6)
    source = [(f, h) for f in (2.0, 3.0, 4.5) for h in (0.0, 0.6)]
    goal = [(2.5, 0.3), (3.5, 0.0), (3.5, 0.6), (5.0, 0.3)]

    train_loader, valid_loader = loaders(source, 3072, 768, gen)
    model = WaveNet(len(source))
    Fitter(model, 1e-3, 5, len(train_loader)).fit("pretrain", train_loader, valid_loader)

    train_loader, valid_loader = loaders(goal, 1024, 768, gen)
    tuned = WaveNet(len(goal))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.pt"
        torch.save(model.state_dict(), path)
        load_backbone(tuned, path)
    tuned.freeze_backbone()
    Fitter(tuned, 2e-3, 10, len(train_loader)).fit("transfer", train_loader, valid_loader)


if __name__ == "__main__":
    main()
