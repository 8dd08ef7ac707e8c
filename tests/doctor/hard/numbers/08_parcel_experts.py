# kind: numbers
# expect: nothing
# like: softmax-before-cross-entropy
# why: the mixture gives log-probabilities (logsumexp of gate and experts, they sum to one); cross-entropy of
#      log-probabilities is the right NLL, since its inner log-softmax leaves them as they are.
"""Mixture of experts for parcel routing; the experts are mixed as probabilities."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

DEPOTS = 7


def parcels(n, seed=88):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 15, generator=g)
    maps = torch.randn(3, 15, DEPOTS, generator=g) * 0.8
    region = (x[:, :3]).argmax(1)
    score = torch.einsum("ni,nij->nj", x, maps[region])
    y = (score + 0.5 * torch.randn(n, DEPOTS, generator=g)).argmax(1)
    return TensorDataset(x, y)


class Experts(nn.Module):
    def __init__(self, count=4, width=48):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(15, 32), nn.ReLU(), nn.Linear(32, count))
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(15, width), nn.ReLU(), nn.Linear(width, DEPOTS)) for _ in range(count))

    def forward(self, x):
        log_gate = self.gate(x).log_softmax(-1)
        log_each = torch.stack([e(x).log_softmax(-1) for e in self.experts], 1)
        return torch.logsumexp(log_gate.unsqueeze(-1) + log_each, dim=1)


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    loss = hits = n = 0
    for x, y in loader:
        out = model(x)
        loss += criterion(out, y).item() * len(y)
        hits += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(79)
    train_set, valid_set = random_split(parcels(4096), [3328, 768])
    train = DataLoader(train_set, batch_size=64, shuffle=True)
    valid = DataLoader(valid_set, batch_size=256)
    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs, eta_min=2e-4)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        v, acc = evaluate(model, valid, criterion)
        print(f"epoch {epoch:2d} train {total / len(train):.4f} valid {v:.4f} accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
