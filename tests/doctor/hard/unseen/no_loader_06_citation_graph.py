# kind: without a DataLoader
# expect: nothing
# like: same-batch-every-step
# why: every step sees the same input because it is the whole graph: transductive node classification is trained on the
#      full batch, with separate masks for training and validation nodes.
"""Semi-supervised node classification with a two-layer GCN on a stochastic block model."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


def block_graph(n, classes, g, inside=0.02, across=0.004, dim=48):
    y = torch.randint(0, classes, (n,), generator=g)
    prob = torch.where(y[:, None] == y[None], inside, across)
    upper = torch.triu((torch.rand(n, n, generator=g) < prob).float(), 1)
    adj = upper + upper.t() + torch.eye(n)
    deg = adj.sum(1).rsqrt()
    centre = 0.35 * torch.randn(classes, dim, generator=g)
    x = centre[y] + torch.randn(n, dim, generator=g)
    return (x - x.mean(0)) / x.std(0), (deg[:, None] * adj * deg).to_sparse(), y


class GCN(nn.Module):
    def __init__(self, d, h, classes, rate):
        super().__init__()
        self.one, self.two = nn.Linear(d, h), nn.Linear(h, classes)
        self.drop = nn.Dropout(rate)

    def forward(self, x, adj):
        h = F.relu(adj @ self.one(self.drop(x)))
        return adj @ self.two(self.drop(h))


def split(n, train, valid, g):
    order = torch.randperm(n, generator=g)
    return order[:train], order[train:train + valid], order[train + valid:]


def accuracy(out, y, idx):
    return (out[idx].argmax(1) == y[idx]).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=1500)
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(106)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1060)
    x, adj, y = block_graph(args.nodes, 6, g)
    tr, va, te = split(args.nodes, 300, 300, g)
    model = GCN(x.shape[1], 48, 6, 0.4)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    for step in range(1, args.steps + 1):
        model.train()
        opt.zero_grad()
        loss = F.cross_entropy(model(x, adj)[tr], y[tr])
        loss.backward()
        opt.step()
        if step % 30 == 0:
            model.eval()
            with torch.no_grad():
                out = model(x, adj)
            print(f"step {step} loss {loss.item():.4f} train {accuracy(out, y, tr):.3f} valid {accuracy(out, y, va):.3f}")
    print(f"test {accuracy(out, y, te):.3f}")


if __name__ == "__main__":
    main()
