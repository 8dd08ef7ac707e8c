# kind: several losses and optimizers
# expect: scheduler-before-optimizer
# why: in every batch the schedulers are stepped before the optimizers, so the first value of each schedule is skipped
#      and all rates run one step ahead.
"""Matrix factorisation for loans; embeddings with Adam, biases with SGD, each with a warm-up."""
import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import LinearLR
from torch.utils.data import DataLoader, TensorDataset, random_split


def loans(n, users, books, seed=6):
    g = torch.Generator().manual_seed(seed)
    U, V = torch.randn(users, 4, generator=g), torch.randn(books, 4, generator=g)
    ub, vb = 0.5 * torch.randn(users, generator=g), 0.5 * torch.randn(books, generator=g)
    pairs = torch.randperm(users * books, generator=g)[:n]
    u, v = pairs // books, pairs % books
    y = 0.5 * (U[u] * V[v]).sum(1) + ub[u] + vb[v] + 0.2 * torch.randn(n, generator=g)
    return TensorDataset(u, v, y)


class Factors(nn.Module):
    def __init__(self, users, books, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.book = nn.Embedding(books, dim)
        self.user_bias = nn.Embedding(users, 1)
        self.book_bias = nn.Embedding(books, 1)
        for e in self.children():
            nn.init.normal_(e.weight, std=0.1)

    def forward(self, u, v):
        dot = (self.user(u) * self.book(v)).sum(1)
        return dot + self.user_bias(u).squeeze(1) + self.book_bias(v).squeeze(1)


class Team:
    """Several optimizers, each with its scheduler, called like one."""

    def __init__(self, model, warmup):
        embeddings = [*model.user.parameters(), *model.book.parameters()]
        biases = [*model.user_bias.parameters(), *model.book_bias.parameters()]
        self.optimizers = [torch.optim.Adam(embeddings, lr=5e-3), torch.optim.SGD(biases, lr=2.0, momentum=0.8)]
        self.schedulers = [LinearLR(o, start_factor=0.1, total_iters=warmup) for o in self.optimizers]

    def minimise(self, loss):
        for o in self.optimizers:
            o.zero_grad()
        loss.backward()
        for o, s in zip(self.optimizers, self.schedulers):
            s.step()
            o.step()

    def rates(self):
        return [o.param_groups[0]["lr"] for o in self.optimizers]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--users", type=int, default=250)
    ap.add_argument("--books", type=int, default=180)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(40)
    data = loans(18000, args.users, args.books)
    train_set, valid_set = random_split(data, [15360, 2640])
    train = DataLoader(train_set, batch_size=256, shuffle=True)
    valid = DataLoader(valid_set, batch_size=528)
    model = Factors(args.users, args.books, 6)
    team = Team(model, warmup=100)
    criterion = nn.MSELoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for u, v, y in train:
            loss = criterion(model(u, v), y)
            team.minimise(loss)
            total += loss.item()
        model.eval()
        with torch.no_grad():
            rmse = torch.cat([(model(u, v) - y).square() for u, v, y in valid]).mean().sqrt()
        print(f"epoch {epoch}  mse {total / len(train):.4f}  valid rmse {rmse:.4f}  rates {team.rates()}")


if __name__ == "__main__":
    main()
