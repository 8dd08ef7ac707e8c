# kind: without a DataLoader
# expect: nothing
# why: every step uses the same full batch, samples influence each other, and validation nodes are part of the training input; in transductive node classification on one graph that is the method, the loss only sees the training mask.
"""Semi-supervised node classification on one graph, full batch, propagation written by hand."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(19)

N, TOPICS, WORDS = 900, 5, 60


def make_graph():
    topic = torch.randint(0, TOPICS, (N,))
    same = topic[:, None] == topic[None, :]
    prob = torch.where(same, 0.014, 0.002)
    upper = torch.triu(torch.rand(N, N) < prob, diagonal=1)
    adj = (upper | upper.T).float() + torch.eye(N)
    inv = adj.sum(1).rsqrt()
    profile = torch.rand(TOPICS, WORDS) * 0.3
    words = (torch.rand(N, WORDS) < 0.08 + 1.2 * profile[topic]).float()
    return words, (inv[:, None] * adj * inv[None, :]).to_sparse(), topic


class Propagate(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.lin = nn.Linear(cin, cout, bias=False)
        self.bias = nn.Parameter(torch.zeros(cout))

    def forward(self, x, a):
        return torch.sparse.mm(a, self.lin(x)) + self.bias


class GCN(nn.Module):
    def __init__(self, hidden=32, p=0.5):
        super().__init__()
        self.one, self.two, self.p = Propagate(WORDS, hidden), Propagate(hidden, TOPICS), p

    def forward(self, x, a):
        x = F.dropout(x, self.p, self.training)
        h = F.relu(self.one(x, a))
        h = F.dropout(h, self.p, self.training)
        return self.two(h, a)


def split_nodes():
    order = torch.randperm(N)
    masks = {k: torch.zeros(N, dtype=torch.bool) for k in ("train", "valid", "test")}
    masks["train"][order[:120]] = True
    masks["valid"][order[120:320]] = True
    masks["test"][order[320:]] = True
    return masks


@torch.no_grad()
def evaluate(model, x, a, y, masks):
    model.eval()
    pred = model(x, a).argmax(1)
    return {k: (pred[m] == y[m]).float().mean().item() for k, m in masks.items()}


def main():
    x, a, y = make_graph()
    masks = split_nodes()
    model = GCN()
    opt = torch.optim.Adam([
        {"params": model.one.parameters(), "weight_decay": 5e-3},
        {"params": model.two.parameters(), "weight_decay": 0.0},
    ], lr=0.01)
    best_valid, test_at_best = 0.0, 0.0
    for epoch in range(1, 301):
        model.train()
        opt.zero_grad()
        out = model(x, a)
        loss = F.cross_entropy(out[masks["train"]], y[masks["train"]])
        loss.backward()
        opt.step()
        if epoch % 10 == 0:
            acc = evaluate(model, x, a, y, masks)
            if acc["valid"] > best_valid:
                best_valid, test_at_best = acc["valid"], acc["test"]
            if epoch % 60 == 0:
                print(f"epoch {epoch} loss {loss.item():.4f} train {acc['train']:.3f} valid {acc['valid']:.3f}")
    print(f"test accuracy at best validation: {test_at_best:.3f}")


main()
