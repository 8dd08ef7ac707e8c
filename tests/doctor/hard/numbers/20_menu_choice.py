# kind: numbers
# expect: nothing
# like: non-finite
# why: dishes that were not on offer get the logit -inf before the log-softmax; the chosen dish is always on offer, so
#      loss and gradients stay finite, and -inf in a masked logit is exactly what is wanted.
"""Choice model: which dish does a guest take from today's menu?"""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DISHES = 20


def visits(n, seed):
    g = torch.Generator().manual_seed(seed)
    fixed = torch.Generator().manual_seed(2222)
    taste = torch.randn(8, 5, generator=fixed)
    dish = torch.randn(DISHES, 5, generator=fixed)
    guest = torch.randn(n, 8, generator=g)
    offered = torch.rand(n, DISHES, generator=g) < 0.4
    offered[torch.arange(n), torch.randint(0, DISHES, (n,), generator=g)] = True
    utility = torch.tanh(guest @ taste) @ dish.T
    gumbel = -torch.log(-torch.log(torch.rand(n, DISHES, generator=g).clamp(1e-6, 1 - 1e-6)))
    choice = (2 * utility + gumbel).masked_fill(~offered, -1e9).argmax(1)
    return TensorDataset(guest, offered, choice)


class ChoiceModel(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.guest = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 16))
        self.dish = nn.Parameter(0.3 * torch.randn(DISHES, 16))
        self.base = nn.Parameter(0.1 * torch.randn(DISHES))

    def forward(self, guest, offered):
        utility = self.guest(guest) @ self.dish.T + self.base
        return utility.masked_fill(~offered, float("-inf")).log_softmax(dim=1)


def evaluate(model, loader):
    model.eval()
    nll = hits = n = 0
    with torch.no_grad():
        for guest, offered, choice in loader:
            logp = model(guest, offered)
            nll -= logp.gather(1, choice[:, None]).sum().item()
            hits += (logp.argmax(1) == choice).sum().item()
            n += len(choice)
    return nll / n, hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(125)
    train = DataLoader(visits(4096, 1), batch_size=64, shuffle=True)
    valid = DataLoader(visits(1024, 2), batch_size=256)
    model = ChoiceModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for guest, offered, choice in train:
            loss = nn.functional.nll_loss(model(guest, offered), choice)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        nll, acc = evaluate(model, valid)
        print(f"epoch {epoch:2d} train {total / len(train):.4f} valid {nll:.4f} accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
