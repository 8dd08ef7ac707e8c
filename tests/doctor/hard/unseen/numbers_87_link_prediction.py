# kind: numbers
# expect: sigmoid-before-bce-logits
# why: affinity() is the logistic function written with tanh; its values in (0, 1) go into BCEWithLogitsLoss.
"""Link prediction on a block graph: two rounds of message passing and a bilinear scorer."""
import argparse
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Split(NamedTuple):
    pairs: Tensor
    labels: Tensor


class GraphData(NamedTuple):
    feats: Tensor
    spread: Tensor
    train: Split
    valid: Split


def make_graph(nodes: int, blocks: int, gen: torch.Generator) -> GraphData:
    member = torch.randint(0, blocks, (nodes,), generator=gen)
    prob = torch.where(member[:, None] == member[None, :], 0.16, 0.015)
    left, right = torch.triu_indices(nodes, nodes, offset=1)
    linked = torch.rand(len(left), generator=gen) < prob[left, right]
    pairs = torch.stack([left, right], 1)
    pos, neg = pairs[linked], pairs[~linked]
    pos = pos[torch.randperm(len(pos), generator=gen)]
    neg = neg[torch.randperm(len(neg), generator=gen)]
    cut = int(0.8 * len(pos))
    valid_neg, train_neg = neg[: len(pos) - cut], neg[len(pos) - cut :][: 3 * cut]

    adj = torch.eye(nodes)
    adj[pos[:cut, 0], pos[:cut, 1]] = 1.0
    adj[pos[:cut, 1], pos[:cut, 0]] = 1.0
    scale = adj.sum(1).rsqrt()
    feats = torch.randn(nodes, 12, generator=gen)
    feats[:, :blocks] += 0.7 * nn.functional.one_hot(member, blocks)
    feats = (feats - feats.mean(0)) / feats.std(0)

    def split(p: Tensor, n: Tensor) -> Split:
        return Split(torch.cat([p, n]), torch.cat([torch.ones(len(p)), torch.zeros(len(n))]))

    return GraphData(feats, scale[:, None] * adj * scale, split(pos[:cut], train_neg), split(pos[cut:], valid_neg))


class LinkModel(nn.Module):
    def __init__(self, inp: int, hidden: int, out: int, spread: Tensor) -> None:
        super().__init__()
        self.register_buffer("spread", spread)
        self.first, self.second = nn.Linear(inp, hidden), nn.Linear(hidden, out)
        self.norm = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(0.1)
        self.relation = nn.Parameter(torch.eye(out) + 0.05 * torch.randn(out, out))
        self.bias = nn.Parameter(torch.zeros(()))

    def embed(self, feats: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.spread @ self.first(feats)))
        return self.spread @ self.second(self.drop(h))

    def affinity(self, a: Tensor, b: Tensor) -> Tensor:
        raw = ((a @ self.relation) * b).sum(-1) + self.bias
        return 0.5 * (1.0 + torch.tanh(0.5 * raw))

    def forward(self, feats: Tensor, pairs: Tensor) -> Tensor:
        z = self.embed(feats)
        return self.affinity(z[pairs[:, 0]], z[pairs[:, 1]])


def minibatches(split: Split, size: int) -> Iterator[Split]:
    """Each batch holds as many links as non-links; non-links are redrawn every epoch."""
    pos, neg = split.pairs[split.labels == 1], split.pairs[split.labels == 0]
    order, other = torch.randperm(len(pos)), torch.randperm(len(neg))
    half = size // 2
    for start in range(0, len(pos) - half + 1, half):
        rows = torch.cat([pos[order[start : start + half]], neg[other[start : start + half]]])
        yield Split(rows, torch.cat([torch.ones(half), torch.zeros(half)]))


def auc(scores: Tensor, labels: Tensor) -> float:
    ranks = scores.argsort().argsort().float() + 1
    n_pos = labels.sum()
    n_neg = len(labels) - n_pos
    return ((ranks[labels == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)).item()


@torch.no_grad()
def evaluate(model: LinkModel, feats: Tensor, split: Split, criterion: nn.Module) -> tuple[float, float]:
    model.eval()
    scores = model(feats, split.pairs)
    return criterion(scores, split.labels).item(), auc(scores, split.labels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=5e-3)
    args = parser.parse_args()
    torch.manual_seed(77)
    torch.set_num_threads(1)

    data = make_graph(args.nodes, args.blocks, torch.Generator().manual_seed(77))
    model = LinkModel(data.feats.shape[1], 48, 24, data.spread)
    criterion = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=15, gamma=0.5)
    for epoch in range(args.epochs):
        model.train()
        total, count = 0.0, 0
        for batch in minibatches(data.train, args.batch):
            opt.zero_grad()
            loss = criterion(model(data.feats, batch.pairs), batch.labels)
            loss.backward()
            opt.step()
            total, count = total + loss.item(), count + 1
        sched.step()
        if epoch % 5 == 4:
            valid_loss, valid_auc = evaluate(model, data.feats, data.valid, criterion)
            print(f"epoch {epoch + 1} train {total / count:.4f} valid {valid_loss:.4f} auc {valid_auc:.3f}")


if __name__ == "__main__":
    main()
