# kind: indirection
# expect: batch-mixed
# why: PairNorm was written for one graph of shape (nodes, channels); on batched dense graphs (batch, nodes, channels) its mean
#      over dim 0 and its scale run over the batch, in evaluation too, so graphs of a batch influence each other.
"""Graph classification with dense adjacency matrices: tell three families of random graphs apart."""
import argparse
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NODES, FEATURES, CLASSES = 18, 6, 3


class PairNorm(nn.Module):
    """Keeps the total distance between node features constant, against over-smoothing."""

    def __init__(self, channels, scale=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.full((channels,), float(scale)))

    def forward(self, x):
        x = x - x.mean(dim=0, keepdim=True)
        return self.scale * x / (1e-6 + x.pow(2).sum(-1).mean()).sqrt()


NORMS = {"pair": partial(PairNorm, scale=4.0), "layer": nn.LayerNorm, "none": lambda channels: nn.Identity()}


def normalise_adjacency(adj):
    adj = adj + torch.eye(adj.shape[-1])
    inv = adj.sum(-1).rsqrt()
    return inv.unsqueeze(-1) * adj * inv.unsqueeze(-2)


class GraphLayer(nn.Module):
    def __init__(self, inputs, outputs, norm):
        super().__init__()
        self.own = nn.Linear(inputs, outputs, bias=False)
        self.neighbours = nn.Linear(inputs, outputs, bias=False)
        self.norm = norm(outputs)

    def forward(self, x, adj):
        return F.relu(self.norm(self.own(x) + self.neighbours(adj @ x)))


class GraphNet(nn.Module):
    def __init__(self, width, depth, norm):
        super().__init__()
        sizes = [FEATURES] + [width] * depth
        self.layers = nn.ModuleList(GraphLayer(a, b, NORMS[norm]) for a, b in zip(sizes, sizes[1:]))
        self.readout = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, CLASSES))

    def forward(self, x, adj):
        adj = normalise_adjacency(adj)
        for layer in self.layers:
            x = layer(x, adj)
        return self.readout(torch.cat([x.mean(1), x.amax(1)], dim=-1))


def random_graphs(n, gen):
    """Family 0: uniform edges; 1: two communities; 2: a few hubs."""
    label = torch.randint(0, CLASSES, (n,), generator=gen)
    prob = torch.full((n, NODES, NODES), 0.25)
    group = (torch.rand(n, NODES, generator=gen) > 0.5).float()
    same = (group.unsqueeze(2) == group.unsqueeze(1)).float()
    prob = torch.where((label == 1).view(-1, 1, 1), 0.07 + 0.36 * same, prob)
    hub = (torch.rand(n, NODES, generator=gen) > 0.82).float()
    touches = torch.maximum(hub.unsqueeze(2), hub.unsqueeze(1))
    prob = torch.where((label == 2).view(-1, 1, 1), 0.08 + 0.5 * touches, prob)
    upper = torch.triu((torch.rand(n, NODES, NODES, generator=gen) < prob).float(), diagonal=1)
    adj = upper + upper.transpose(1, 2)
    degree = (adj.sum(-1, keepdim=True) - 4.5) / 2.2
    noise = torch.randn(n, NODES, FEATURES - 1, generator=gen)
    return TensorDataset(torch.cat([degree, noise], dim=-1), adj, label)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right, loss, n = 0, 0.0, 0
    for x, adj, y in loader:
        logits = model(x, adj)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, right / n


def train_epoch(model, loader, optimizer, scheduler):
    model.train()
    for x, adj, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, adj), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        scheduler.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--norm", choices=sorted(NORMS), default="pair")
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(random_graphs(4096, gen), args.batch_size, shuffle=True)
    valid_loader = DataLoader(random_graphs(1024, gen), args.batch_size)
    model = GraphNet(args.width, args.depth, args.norm)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        train_epoch(model, train_loader, optimizer, scheduler)
        loss, accuracy = evaluate(model, valid_loader)
        print(f"epoch {epoch:2d}  valid loss {loss:.4f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
