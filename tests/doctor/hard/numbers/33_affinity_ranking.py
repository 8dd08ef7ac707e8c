# kind: numbers
# expect: nothing
# like: loss-broadcast
# why: the (N, 1) - (N,) difference is the table of all pairs that a pairwise ranking loss wants, and it
#   is masked down to the ordered pairs.
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--compounds", type=int, default=2400)
    p.add_argument("--descriptors", type=int, default=20)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=48)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=77)
    return p.parse_args()


def simulate_assay(n, d, generator):
    x = torch.randn(n, d, generator=generator) * torch.linspace(0.5, 4.0, d) + torch.linspace(-2, 6, d)
    u = (x - torch.linspace(-2, 6, d)) / torch.linspace(0.5, 4.0, d)
    affinity = u[:, 0] + 0.7 * u[:, 1] * u[:, 2] - 0.6 * u[:, 3].abs() + 0.5 * torch.tanh(2 * u[:, 4])
    affinity = affinity + 0.25 * torch.randn(n, generator=generator)
    return x, affinity


class Scorer(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.inp = nn.Linear(d, hidden)
        self.mid = nn.Linear(hidden, hidden)
        # a constant offset cannot change an order
        self.out = nn.Linear(hidden, 1, bias=False)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        h = h + F.gelu(self.mid(h))
        return self.out(h)


def pairwise_logistic(score, label):
    margin = score - score.squeeze(1)
    better = label.unsqueeze(1) > label
    return F.softplus(-margin)[better].mean()


@torch.no_grad()
def kendall(model, x, label):
    model.eval()
    s = model(x)
    agree = torch.sign(s - s.squeeze(1)) * torch.sign(label.unsqueeze(1) - label)
    n = len(label)
    return agree.sum().item() / (n * (n - 1))


def main():
    args = parse()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    g = torch.Generator().manual_seed(args.seed)
    x, y = simulate_assay(args.compounds, args.descriptors, g)
    cut = int(0.8 * args.compounds)
    mu, sd = x[:cut].mean(0), x[:cut].std(0)
    x = (x - mu) / sd
    train_x, train_y, valid_x, valid_y = x[:cut], y[:cut], x[cut:], y[cut:]

    model = Scorer(args.descriptors, args.hidden)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        model.train()
        seen, total = 0, 0.0
        for idx in torch.randperm(cut, generator=g).split(args.batch_size):
            loss = pairwise_logistic(model(train_x[idx]), train_y[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
            seen += len(idx)
        print(f"[{epoch:02d}] pair loss {total / seen:.4f}   kendall tau {kendall(model, valid_x, valid_y):.3f}")


if __name__ == "__main__":
    main()
