# kind: several losses and optimizers
# expect: kl-on-probabilities
# why: in the mutual term kl_div gets softmax where it wants log_softmax as its first argument; the term is no
#      divergence (it is not zero for equal outputs) and pushes the twins towards wrong values.
"""Deep mutual learning: two unlike networks teach each other on spectra."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MINERALS = 6


def spectra(n, seed, bands=60):
    g = torch.Generator().manual_seed(seed)
    fixed = torch.Generator().manual_seed(4321)
    peaks = torch.rand(MINERALS, 3, generator=fixed)
    y = torch.randint(0, MINERALS, (n,), generator=g)
    axis = torch.linspace(0, 1, bands)
    shift = 0.02 * torch.randn(n, 3, generator=g)
    lines = torch.exp(-((axis - (peaks[y] + shift)[:, :, None]) / 0.04) ** 2).sum(1)
    x = lines + 0.5 * torch.randn(n, bands, generator=g)
    return TensorDataset((x - 0.2) / 0.6, y)


class ConvTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 7, padding=3, stride=2), nn.ReLU(),
                                 nn.Conv1d(16, 16, 5, padding=2, stride=2), nn.ReLU(), nn.Flatten(),
                                 nn.Dropout(0.2), nn.Linear(16 * 15, MINERALS))

    def forward(self, x):
        return self.net(x.unsqueeze(1))


class DenseTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(60, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, MINERALS))

    def forward(self, x):
        return self.net(x)


def mutual(mine, other, temperature):
    p = F.softmax(mine / temperature, dim=1)
    q = F.softmax(other.detach() / temperature, dim=1)
    return F.kl_div(p, q, reduction="batchmean") * temperature ** 2


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = n = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        n += len(y)
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--alpha", type=float, default=0.5)
    ap.add_argument("--temperature", type=float, default=2.0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(62)
    train = DataLoader(spectra(1920, 1), batch_size=64, shuffle=True)
    valid = DataLoader(spectra(640, 2), batch_size=160)
    twins = [ConvTwin(), DenseTwin()]
    opts = [torch.optim.Adam(t.parameters(), lr=1e-3) for t in twins]
    for epoch in range(args.epochs):
        for t in twins:
            t.train()
        totals = [0.0, 0.0]
        for x, y in train:
            outs = [t(x) for t in twins]
            for i, opt in enumerate(opts):
                loss = F.cross_entropy(outs[i], y) + args.alpha * mutual(outs[i], outs[1 - i], args.temperature)
                opt.zero_grad()
                loss.backward()
                opt.step()
                totals[i] += loss.item()
        print(f"epoch {epoch:2d} losses {totals[0] / len(train):.4f} {totals[1] / len(train):.4f} "
              f"accuracy {accuracy(twins[0], valid):.3f} {accuracy(twins[1], valid):.3f}")


if __name__ == "__main__":
    main()
