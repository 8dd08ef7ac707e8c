# kind: numbers
# expect: softmax-before-cross-entropy
# why: `normalise` is a softmax written by hand (exp of the shifted scores over their sum) and its probabilities are
#      given to CrossEntropyLoss, which takes logits; with four classes the loss cannot fall below 0.74.
"""Kinds of small circuits as graphs; message passing on dense adjacency matrices."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NODES, KINDS = 12, 4


def circuits(n, seed):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, KINDS, (n,), generator=g)
    i, j = torch.meshgrid(torch.arange(NODES), torch.arange(NODES), indexing="ij")
    gap = (i - j).abs()
    ring = ((gap == 1) | (gap == NODES - 1)).float()
    star = ((i == 0) ^ (j == 0)).float()
    two = ((i < 6) == (j < 6)).float() - torch.eye(NODES)
    grid = ((gap == 3) | ((gap == 1) & (torch.minimum(i, j) % 3 != 2))).float()
    adj = torch.stack([ring, star, two, grid])[kind]
    noise = torch.rand(n, NODES, NODES, generator=g)
    flip = torch.triu(noise < 0.06, 1)
    flip = (flip | flip.transpose(1, 2)).float()
    adj = (adj - flip).abs()
    perm = torch.rand(n, NODES, generator=g).argsort(1)
    rows = torch.arange(n)[:, None, None]
    return TensorDataset(adj[rows, perm[:, :, None], perm[:, None, :]], kind)


class Pass(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.near = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, adj, h):
        return torch.relu(self.own(h) + self.near(adj @ h))


def normalise(scores):
    e = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


class GraphNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ModuleList([Pass(2, width), Pass(width, width), Pass(width, width)])
        self.out = nn.Linear(2 * width, KINDS)

    def forward(self, adj):
        degree = adj.sum(-1, keepdim=True)
        h = torch.cat([degree / 4 - 0.8, degree.square() / 16 - 1], -1)
        norm = adj / degree.clamp(min=1)
        for layer in self.layers:
            h = layer(norm, h)
        return normalise(self.out(torch.cat([h.mean(1), h.amax(1)], -1)))


def evaluate(model, loader):
    model.eval()
    hits = n = 0
    with torch.no_grad():
        for adj, kind in loader:
            hits += (model(adj).argmax(1) == kind).sum().item()
            n += len(kind)
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(68)
    train = DataLoader(circuits(2048, 1), batch_size=64, shuffle=True)
    valid = DataLoader(circuits(512, 2), batch_size=128)
    model = GraphNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for adj, kind in train:
            loss = criterion(model(adj), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} accuracy {evaluate(model, valid):.3f}")


if __name__ == "__main__":
    main()
