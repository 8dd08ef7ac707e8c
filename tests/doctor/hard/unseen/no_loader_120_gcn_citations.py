# kind: no_loader
# expect: nothing
# why: Full-batch transductive node classification: every step reads the whole graph and nodes do influence each other, as
#   they should; loss, early stopping and test use disjoint node masks, and the best weights are cloned.
"""Two-layer graph convolution on a citation-like random graph."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Graph:
    x: Tensor
    adj: Tensor
    y: Tensor
    train: Tensor
    valid: Tensor
    test: Tensor


def citation_graph(n: int, classes: int, features: int, seed: int) -> Graph:
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    prob = torch.where(y[:, None] == y[None, :], 0.018, 0.004)
    upper = torch.triu(torch.rand(n, n, generator=g) < prob, diagonal=1).float()
    adj = upper + upper.T + torch.eye(n)
    inv = adj.sum(1).rsqrt()
    adj = inv[:, None] * adj * inv[None, :]
    words = torch.randn(classes, features, generator=g)
    x = 0.35 * words[y] + torch.randn(n, features, generator=g)
    x = (x - x.mean(0)) / x.std(0)
    order = torch.randperm(n, generator=g)
    masks = torch.zeros(3, n, dtype=torch.bool)
    masks[0, order[:240]] = True
    masks[1, order[240:540]] = True
    masks[2, order[540:]] = True
    return Graph(x, adj.to_sparse().coalesce(), y, *masks)


class GraphConv(nn.Module):
    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.lin = nn.Linear(n_in, n_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return torch.sparse.mm(adj, self.lin(x)) + self.bias


class GCN(nn.Module):
    def __init__(self, n_in: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = GraphConv(n_in, hidden)
        self.conv2 = GraphConv(hidden, classes)
        self.dropout = dropout

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        x = F.dropout(x, self.dropout, self.training)
        x = F.relu(self.conv1(x, adj))
        x = F.dropout(x, self.dropout, self.training)
        return self.conv2(x, adj)


@torch.no_grad()
def evaluate(model: nn.Module, graph: Graph, mask: Tensor) -> tuple[float, float]:
    model.eval()
    logits = model(graph.x, graph.adj)[mask]
    target = graph.y[mask]
    return F.cross_entropy(logits, target).item(), (logits.argmax(-1) == target).float().mean().item()


def train_epoch(model: nn.Module, graph: Graph, optimizer: torch.optim.Optimizer) -> float:
    model.train()
    optimizer.zero_grad()
    logits = model(graph.x, graph.adj)
    loss = F.cross_entropy(logits[graph.train], graph.y[graph.train])
    loss.backward()
    optimizer.step()
    return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--patience", type=int, default=200)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)

    graph = citation_graph(n=1500, classes=5, features=64, seed=9)
    model = GCN(64, args.hidden, 5, args.dropout)
    optimizer = torch.optim.Adam(
        [
            {"params": model.conv1.parameters(), "weight_decay": 5e-4},
            {"params": model.conv2.parameters(), "weight_decay": 0.0},
        ],
        lr=5e-3,
    )

    best_loss, best_epoch = float("inf"), 0
    best = {k: v.detach().clone() for k, v in model.state_dict().items()}
    for epoch in range(1, args.epochs + 1):
        loss = train_epoch(model, graph, optimizer)
        valid_loss, valid_acc = evaluate(model, graph, graph.valid)
        if valid_loss < best_loss:
            best_loss, best_epoch = valid_loss, epoch
            best = {k: v.detach().clone() for k, v in model.state_dict().items()}
        if epoch % 50 == 0:
            print(f"epoch {epoch} loss {loss:.4f} valid loss {valid_loss:.4f} acc {valid_acc:.3f}")
        if epoch - best_epoch >= args.patience:
            print(f"no better since epoch {best_epoch}, stopping")
            break

    model.load_state_dict(best)
    test_loss, test_acc = evaluate(model, graph, graph.test)
    print(f"best epoch {best_epoch} test loss {test_loss:.4f} acc {test_acc:.3f}")


if __name__ == "__main__":
    main()
