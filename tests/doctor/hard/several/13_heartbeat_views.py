# kind: several losses and optimizers
# expect: nothing
# like: frozen-parameter-moves
# why: the target network has requires_grad=False and moves on purpose, as a moving average of the online network
#      (BYOL); it is a deep copy and stands in no optimizer. The probe trains on detached features with its own loss.
"""BYOL on heartbeats with an online linear probe."""
import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def heartbeats(n, seed, length=64):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.linspace(0, 1, length)
    harmonic = torch.tensor([1.0, 2.0, 3.0, 5.0])[y][:, None]
    x = torch.sin(2 * math.pi * 2 * t) + torch.sin(2 * math.pi * 2 * harmonic * t + 0.5)
    return TensorDataset(x + 0.2 * torch.randn(n, length, generator=g), y)


def view(x):
    """A random gain and noise and a short blanked window."""
    out = x * (0.8 + 0.4 * torch.rand(len(x), 1)) + 0.2 * torch.randn_like(x)
    start = torch.randint(0, x.shape[1] - 8, (len(x), 1))
    pos = torch.arange(x.shape[1])
    return out.masked_fill((pos >= start) & (pos < start + 8), 0.0)


def block(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.LayerNorm(o), nn.ReLU())


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(block(64, 96), block(96, 64))
        self.projector = nn.Sequential(block(64, 64), nn.Linear(64, 32))
        self.predictor = nn.Sequential(block(32, 64), nn.Linear(64, 32))

    def embed(self, x):
        return self.projector(self.encoder(x))

    def forward(self, x):
        return self.predictor(self.embed(x))


@torch.no_grad()
def follow(target, online, tau):
    for t, o in zip(target.parameters(), online.parameters()):
        t.lerp_(o, 1 - tau)


def byol_loss(p, z):
    return 2 - 2 * F.cosine_similarity(p, z.detach(), dim=1).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--tau", type=float, default=0.98)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(60)
    train = DataLoader(heartbeats(2560, 7), batch_size=64, shuffle=True)
    valid = DataLoader(heartbeats(640, 8), batch_size=160)
    online = Online()
    target = nn.Sequential(copy.deepcopy(online.encoder), copy.deepcopy(online.projector)).requires_grad_(False)
    source = nn.Sequential(online.encoder, online.projector)
    probe = nn.Linear(64, 4)
    opt = torch.optim.AdamW(online.parameters(), lr=1e-3, weight_decay=1e-4)
    opt_probe = torch.optim.Adam(probe.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        online.train()
        probe.train()
        totals = torch.zeros(2)
        for x, y in train:
            a, b = view(x), view(x)
            with torch.no_grad():
                za, zb = target(a), target(b)
            loss = 0.5 * (byol_loss(online(a), zb) + byol_loss(online(b), za))
            opt.zero_grad()
            loss.backward()
            opt.step()
            follow(target, source, args.tau)

            with torch.no_grad():
                features = online.encoder(x)
            probe_loss = F.cross_entropy(probe(features), y)
            opt_probe.zero_grad()
            probe_loss.backward()
            opt_probe.step()
            totals += torch.tensor([loss.item(), probe_loss.item()])
        online.eval()
        probe.eval()
        with torch.no_grad():
            hits = sum((probe(online.encoder(x)).argmax(1) == y).sum().item() for x, y in valid)
        byol, ce = (totals / len(train)).tolist()
        print(f"epoch {epoch:2d} byol {byol:.4f} probe {ce:.4f} probe accuracy {hits / 640:.3f}")


if __name__ == "__main__":
    main()
