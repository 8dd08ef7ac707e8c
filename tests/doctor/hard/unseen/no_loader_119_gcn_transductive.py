# kind: no_loader
# expect: nothing
# why: Might be accused of same-batch-every-step, batch-mixed, train-valid-overlap or evaluated-in-train-mode: one graph is the whole data, neighbours are meant to influence each other, and the node sets are kept apart by masks in loss and metric.
"""Semi-supervised node classification with a graph convolution written by hand."""
import copy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Graph(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor
    edges: torch.Tensor  # 2 x E, each undirected edge once
    train: torch.Tensor
    valid: torch.Tensor
    test: torch.Tensor


def stochastic_blocks(n=1600, groups=5, features=32, seed=0):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(groups, (n,), generator=gen)
    centres = torch.randn(groups, features, generator=gen)
    x = 0.35 * centres[y] + torch.randn(n, features, generator=gen)
    candidates = torch.randint(n, (2, 40 * n), generator=gen)
    same = y[candidates[0]] == y[candidates[1]]
    keep = torch.rand(candidates.shape[1], generator=gen) < torch.where(same, 0.25, 0.02)
    keep &= candidates[0] < candidates[1]
    edges = torch.unique(candidates[:, keep], dim=1)
    order = torch.randperm(n, generator=gen)
    masks = torch.zeros(3, n, dtype=torch.bool)
    for row, part in enumerate(order.split([200, 400, n - 600])):
        masks[row, part] = True
    return Graph(x, y, edges, *masks)


def normalised_adjacency(edges, n):
    """D^-1/2 (A + I) D^-1/2 as a sparse matrix."""
    loops = torch.arange(n)
    row = torch.cat([edges[0], edges[1], loops])
    col = torch.cat([edges[1], edges[0], loops])
    scale = torch.bincount(row, minlength=n).float().rsqrt()
    return torch.sparse_coo_tensor(torch.stack([row, col]), scale[row] * scale[col], (n, n)).coalesce()


class GraphConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, adjacency, x):
        return torch.sparse.mm(adjacency, x @ self.weight) + self.bias


class GCN(nn.Module):
    def __init__(self, inputs, hidden, classes, drop=0.5):
        super().__init__()
        self.first, self.second = GraphConv(inputs, hidden), GraphConv(hidden, classes)
        self.drop = drop

    def forward(self, adjacency, x):
        x = F.dropout(x, self.drop, self.training)
        h = F.relu(self.first(adjacency, x))
        return self.second(adjacency, F.dropout(h, self.drop, self.training))


def drop_edges(edges, share):
    return edges[:, torch.rand(edges.shape[1]) >= share]


@torch.no_grad()
def evaluate(model, adjacency, graph, *names):
    model.eval()
    logits = model(adjacency, graph.x)
    result = {}
    for name in names:
        mask = getattr(graph, name)
        loss = F.cross_entropy(logits[mask], graph.y[mask]).item()
        result[name] = (loss, (logits[mask].argmax(1) == graph.y[mask]).float().mean().item())
    return result


def main():
    torch.set_num_threads(1)
    torch.manual_seed(15)
    graph = stochastic_blocks()
    known = graph.x[graph.train]
    graph = graph._replace(x=(graph.x - known.mean(0)) / known.std(0))
    n = len(graph.x)
    print(f"{n} nodes, {graph.edges.shape[1]} edges, {int(graph.train.sum())} labelled for training")
    whole = normalised_adjacency(graph.edges, n)

    model = GCN(graph.x.shape[1], 32, 5)
    optimizer = torch.optim.Adam(
        [{"params": model.first.parameters(), "weight_decay": 5e-4}, {"params": model.second.parameters(), "weight_decay": 0.0}],
        lr=5e-3,
    )
    best, kept, waited = float("inf"), None, 0
    for epoch in range(1, 401):
        model.train()
        thinned = normalised_adjacency(drop_edges(graph.edges, 0.2), n)
        logits = model(thinned, graph.x)
        loss = F.cross_entropy(logits[graph.train], graph.y[graph.train])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

        held_out, accuracy = evaluate(model, whole, graph, "valid")["valid"]
        if held_out < best:
            best, kept, waited = held_out, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
        if epoch % 60 == 0:
            print(f"epoch {epoch}  train {loss.item():.4f}  valid {held_out:.4f}  accuracy {accuracy:.4f}")
        if waited == 100:
            break
    model.load_state_dict(kept)
    print("test loss %.4f, accuracy %.4f" % evaluate(model, whole, graph, "test")["test"])


if __name__ == "__main__":
    main()
