# kind: without a DataLoader
# expect: nothing
# like: same-batch-every-step
# why: Transductive node classification: the whole graph is the one batch by nature, and train, validation and test
#      nodes are told apart by hand-made masks in the loss.
import copy
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)


@dataclass
class Setup:
    nodes: int = 900
    groups: int = 5
    words: int = 40
    hidden: int = 32
    rounds: int = 220
    lr: float = 1e-2
    decay: float = 5e-4
    seed: int = 8


def citation_graph(s, gen):
    topic = torch.randint(s.groups, (s.nodes,), generator=gen)
    same = topic[:, None] == topic[None]
    chance = torch.where(same, 0.020, 0.0025)
    upper = (torch.rand(s.nodes, s.nodes, generator=gen) < chance).triu(1)
    adj = (upper | upper.T).float()
    adj.fill_diagonal_(1.0)
    deg = adj.sum(1).rsqrt()
    adj = (deg[:, None] * adj * deg[None]).to_sparse()
    profile = torch.randn(s.groups, s.words, generator=gen)
    words = 0.45 * profile[topic] + torch.randn(s.nodes, s.words, generator=gen)
    return adj, words, topic


def hand_masks(n, gen, train=300, valid=200):
    order = torch.randperm(n, generator=gen)
    out = []
    for part in (order[:train], order[train:train + valid], order[train + valid:]):
        m = torch.zeros(n, dtype=torch.bool)
        m[part] = True
        out.append(m)
    return out


class Conv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b)

    def forward(self, adj, h):
        return torch.sparse.mm(adj, self.lin(h))


class GCN(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.first = Conv(s.words, s.hidden)
        self.second = Conv(s.hidden, s.groups)

    def forward(self, adj, x):
        h = F.dropout(x, 0.3, training=self.training)
        h = F.relu(self.first(adj, h))
        h = F.dropout(h, 0.5, training=self.training)
        return self.second(adj, h)


@torch.no_grad()
def score(model, adj, x, topic, mask):
    model.eval()
    out = model(adj, x)[mask]
    loss = F.cross_entropy(out, topic[mask]).item()
    return loss, (out.argmax(1) == topic[mask]).float().mean().item()


def main(s):
    torch.manual_seed(s.seed)
    gen = torch.Generator().manual_seed(s.seed)
    adj, words, topic = citation_graph(s, gen)
    tr, va, te = hand_masks(s.nodes, gen)
    words = (words - words[tr].mean(0)) / words[tr].std(0)

    model = GCN(s)
    opt = torch.optim.Adam(model.parameters(), lr=s.lr, weight_decay=s.decay)
    best, kept = float("inf"), None
    for r in range(s.rounds):
        model.train()
        opt.zero_grad()
        loss = F.cross_entropy(model(adj, words)[tr], topic[tr])
        loss.backward()
        opt.step()
        vloss, vacc = score(model, adj, words, topic, va)
        if vloss < best:
            best, kept = vloss, copy.deepcopy(model.state_dict())
        if r % 20 == 0:
            print(f"round {r:3d}  train {loss.item():.4f}  valid {vloss:.4f}  acc {vacc:.3f}")
    model.load_state_dict(kept)
    print("test", score(model, adj, words, topic, te))


main(Setup())
