# kind: several losses and optimizers
# expect: detached-loss
# also: dead-parameter
# why: the auxiliary losses are packed into torch.tensor([...], requires_grad=True), which copies their values: the
#      backward of the auxiliary branch starts at a new leaf and the auxiliary readers never learn.
"""Document type from invoice features, plus two auxiliary readers with their own optimizer."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def invoices(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 24, generator=g)
    proj = torch.randn(24, 5, generator=torch.Generator().manual_seed(1234))
    kind = (x @ proj + 0.5 * torch.randn(n, 5, generator=g)).argmax(1)
    amount = x[:, :4].sum(1) / 2 + 0.1 * torch.randn(n, generator=g)
    urgent = (x[:, 4] * x[:, 5] > 0).long()
    return TensorDataset(x, kind, amount, urgent)


class Reader(nn.Module):
    """Small network on top of detached features."""

    def __init__(self, width, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, out))

    def forward(self, h):
        return self.net(h)


class Invoice(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(24, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.kind = nn.Linear(width, 5)
        self.amount = Reader(width, 1)
        self.urgent = Reader(width, 2)

    def forward(self, x):
        h = self.backbone(x)
        side = h.detach()
        return self.kind(h), self.amount(side).squeeze(1), self.urgent(side)


def train_one_epoch(model, loader, optimizer, aux_optimizer):
    model.train()
    totals = torch.zeros(3)
    for x, kind, amount, urgent in loader:
        p_kind, p_amount, p_urgent = model(x)
        loss = F.cross_entropy(p_kind, kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        parts = [F.mse_loss(p_amount, amount), F.cross_entropy(p_urgent, urgent)]
        aux_loss = torch.tensor(parts, requires_grad=True).mean()
        aux_optimizer.zero_grad()
        aux_loss.backward()
        aux_optimizer.step()
        totals += torch.tensor([loss.item(), *(p.item() for p in parts)])
    return (totals / len(loader)).tolist()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = n = 0
    for x, kind, _, _ in loader:
        hits += (model(x)[0].argmax(1) == kind).sum().item()
        n += len(kind)
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(19)
    train = DataLoader(invoices(3072, 1), batch_size=64, shuffle=True)
    valid = DataLoader(invoices(768, 2), batch_size=256)
    model = Invoice()
    optimizer = torch.optim.Adam([*model.backbone.parameters(), *model.kind.parameters()], lr=1e-3)
    aux_optimizer = torch.optim.Adam([*model.amount.parameters(), *model.urgent.parameters()], lr=1e-3)
    for epoch in range(args.epochs):
        kind, amount, urgent = train_one_epoch(model, train, optimizer, aux_optimizer)
        print(f"epoch {epoch:2d} kind {kind:.4f} amount {amount:.4f} urgent {urgent:.4f} "
              f"accuracy {evaluate(model, valid):.3f}")


if __name__ == "__main__":
    main()
