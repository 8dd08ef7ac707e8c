# kind: several
# expect: teacher-shares-weights
# why: The teacher loads the student's state_dict with assign=True and so shares its storage; it moves with the student.
"""Class-incremental graph classification: learn three families, then three more while distilling the old ones."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

NODES, FEATS = 12, 4


@dataclass
class Plan:
    per_class: int = 400
    valid_per_class: int = 100
    hidden: int = 40
    batch: int = 40
    epochs: int = 7
    lr: float = 3e-3
    temperature: float = 2.0
    distill: float = 1.5
    seed: int = 31


def make_graphs(family: int, n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random graphs whose density, block structure and feature profile depend on the family."""
    density = [0.15, 0.3, 0.5, 0.15, 0.3, 0.5][family]
    blocks = torch.arange(NODES) % 2 if family >= 3 else torch.zeros(NODES, dtype=torch.long)
    same = (blocks[:, None] == blocks[None, :]).float()
    prob = density * (0.3 + 1.4 * same) if family >= 3 else torch.full((NODES, NODES), density)
    upper = (torch.rand(n, NODES, NODES, generator=gen) < prob).float().triu(1)
    adj = upper + upper.transpose(1, 2)
    feats = torch.randn(n, NODES, FEATS, generator=gen)
    feats[..., 0] += 0.8 * (blocks.float() - 0.5)
    return adj, feats


def dataset(families: list[int], n: int, gen: torch.Generator) -> TensorDataset:
    parts = [make_graphs(f, n, gen) for f in families]
    labels = torch.tensor(families).repeat_interleave(n)
    return TensorDataset(torch.cat([a for a, _ in parts]), torch.cat([x for _, x in parts]), labels)


class GraphLayer(nn.Module):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.own, self.near = nn.Linear(a, b), nn.Linear(a, b, bias=False)
        self.norm = nn.LayerNorm(b)

    def forward(self, adj: Tensor, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.own(x) + self.near(adj @ x) / 4.0))


class GraphNet(nn.Module):
    def __init__(self, hidden: int, classes: int = 6) -> None:
        super().__init__()
        self.inp = nn.Linear(FEATS + 1, hidden)
        self.layers = nn.ModuleList(GraphLayer(hidden, hidden) for _ in range(2))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, adj: Tensor, x: Tensor) -> Tensor:
        degree = adj.sum(-1, keepdim=True) / 4.0 - 1.0
        h = self.inp(torch.cat([x, degree], -1))
        for layer in self.layers:
            h = layer(adj, h)
        return self.head(self.drop(torch.cat([h.mean(1), h.amax(1)], 1)))


def snapshot(model: GraphNet, hidden: int) -> GraphNet:
    teacher = GraphNet(hidden)
    teacher.load_state_dict(model.state_dict(), assign=True)
    return teacher.requires_grad_(False).eval()


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    log_p = F.log_softmax(student / temperature, dim=1)
    q = F.softmax(teacher / temperature, dim=1)
    return F.kl_div(log_p, q, reduction="batchmean") * temperature**2


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset) -> float:
    model.eval()
    hits = 0
    for adj, x, y in DataLoader(data, batch_size=100):
        hits += (model(adj, x).argmax(1) == y).sum().item()
    return hits / len(data)


def learn(student: GraphNet, data: TensorDataset, plan: Plan, classes: slice, teacher: GraphNet | None = None) -> None:
    loader = DataLoader(data, batch_size=plan.batch, shuffle=True, drop_last=True)
    opt = torch.optim.Adam(student.parameters(), lr=plan.lr if teacher is None else plan.lr / 3)
    for epoch in range(plan.epochs):
        student.train()
        sums = torch.zeros(2)
        for adj, x, y in loader:
            logits = student(adj, x)
            hard = F.cross_entropy(logits[:, classes], y - classes.start)
            soft = torch.zeros(())
            if teacher is not None:
                with torch.no_grad():
                    old = teacher(adj, x)[:, : classes.start]
                soft = distillation(logits[:, : classes.start], old, plan.temperature)
            opt.zero_grad()
            (hard + plan.distill * soft).backward()
            opt.step()
            sums += torch.stack([hard.detach(), soft.detach()])
        hard_mean, soft_mean = (sums / len(loader)).tolist()
        print(f"  epoch {epoch} class loss {hard_mean:.4f} distillation {soft_mean:.4f}")


def main() -> None:
    plan = Plan()
    torch.manual_seed(plan.seed)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(plan.seed)
    first, second = [0, 1, 2], [3, 4, 5]
    train_a, train_b = dataset(first, plan.per_class, gen), dataset(second, plan.per_class, gen)
    valid_a, valid_b = dataset(first, plan.valid_per_class, gen), dataset(second, plan.valid_per_class, gen)

    student = GraphNet(plan.hidden)
    print("families 0-2")
    learn(student, train_a, plan, slice(0, 3))
    print(f"  old {accuracy(student, valid_a):.3f}")
    teacher = snapshot(student, plan.hidden)
    print("families 3-5")
    learn(student, train_b, plan, slice(3, 6), teacher)
    print(f"  old {accuracy(student, valid_a):.3f} new {accuracy(student, valid_b):.3f}")


if __name__ == "__main__":
    main()
