# kind: numbers
# expect: averaged-batchnorm-stale
# why: the hand-written moving average goes over the parameters only; the averaged copy is evaluated with
#   the BatchNorm statistics it had before training.
import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

CFG = {
    "seed": 5, "classes": 6, "bands": 16, "frames": 32, "samples": 1600,
    "batch": 32, "epochs": 6, "lr": 2e-3, "ema": 0.97,
}


def synth_spectrograms(cfg):
    n, bands, frames = cfg["samples"], cfg["bands"], cfg["frames"]
    label = torch.randint(0, cfg["classes"], (n,))
    t = torch.linspace(0, 1, frames)
    centre = 3 + 9 * torch.rand(n, 1)
    slope = (label.float()[:, None] - 2.5) * 1.6
    track = centre + slope * (t - 0.5) + 1.5 * torch.sin(2 * math.pi * (label[:, None] % 3 + 1) * t)
    band = torch.arange(bands)[None, :, None]
    energy = torch.exp(-0.5 * (band - track[:, None, :]) ** 2)
    return torch.log(energy + 0.05 + 0.1 * torch.rand(n, bands, frames)), label


def block(cin, cout):
    return nn.Sequential(
        nn.Conv1d(cin, cout, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm1d(cout),
        nn.ReLU(),
    )


class KeywordNet(nn.Module):
    def __init__(self, bands, classes):
        super().__init__()
        self.features = nn.Sequential(block(bands, 32), block(32, 48), block(48, 48))
        self.classifier = nn.Linear(48, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=2))


class SlowWeights:
    """Keeps a slowly following copy of a network."""

    def __init__(self, model, decay):
        self.decay = decay
        self.net = copy.deepcopy(model)
        self.net.requires_grad_(False)
        self.count = 0

    @torch.no_grad()
    def follow(self, model):
        self.count += 1
        keep = min(self.decay, self.count / (10 + self.count))
        fast = dict(model.named_parameters())
        for name, slow in self.net.named_parameters():
            slow.mul_(keep).add_(fast[name], alpha=1 - keep)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = count = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        count += len(y)
    return right / count


def run(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    x, y = synth_spectrograms(cfg)
    whole = TensorDataset(x, y)
    train, valid = random_split(whole, [1280, cfg["samples"] - 1280])
    mean, std = x[train.indices].mean((0, 2), keepdim=True), x[train.indices].std((0, 2), keepdim=True)
    whole.tensors = ((x - mean) / std, y)
    train_loader = DataLoader(train, batch_size=cfg["batch"], shuffle=True)
    valid_loader = DataLoader(valid, batch_size=80)

    model = KeywordNet(cfg["bands"], cfg["classes"])
    slow = SlowWeights(model, cfg["ema"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=0.01)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for xb, yb in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            slow.follow(model)
            total += loss.item() * len(yb)
        print(f"{epoch}: loss {total / len(train):.4f}  "
              f"fast {accuracy(model, valid_loader):.3f}  slow {accuracy(slow.net, valid_loader):.3f}")


run(CFG)
