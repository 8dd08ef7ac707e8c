# kind: indirection
# expect: batch-mixed
# also: softmax-wrong-dim
# why: The "attention" readout normalises its gates with a softmax over all atoms of the batched (disjoint) graph instead of
#   over the atoms of each molecule, so the other molecules of the batch change a molecule's prediction.
"""Predict a property of small molecules with message passing and attention pooling."""
import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

ATOMS = 6


@dataclass
class Molecule:
    kinds: Tensor
    edges: Tensor
    target: float


def random_molecule(rng: random.Random) -> Molecule:
    n = rng.randint(5, 14)
    kinds = torch.tensor([rng.randrange(ATOMS) for _ in range(n)])
    bonds = [(i, rng.randrange(i)) for i in range(1, n)]
    for _ in range(rng.randint(0, 3)):
        a, b = rng.sample(range(n), 2)
        bonds.append((a, b))
    edges = torch.tensor(bonds + [(b, a) for a, b in bonds]).T
    polar = (kinds[edges[0]] - kinds[edges[1]]).abs().float().mean().item()
    heavy = (kinds >= 4).float().mean().item()
    return Molecule(kinds, edges, polar + 2.0 * heavy + 0.05 * rng.gauss(0.0, 1.0))


def collate(batch: list[Molecule]) -> dict[str, Tensor]:
    sizes = torch.tensor([len(m.kinds) for m in batch])
    offsets = torch.cumsum(sizes, 0) - sizes
    return {
        "kinds": torch.cat([m.kinds for m in batch]),
        "edges": torch.cat([m.edges + o for m, o in zip(batch, offsets)], dim=1),
        "owner": torch.repeat_interleave(torch.arange(len(batch)), sizes),
        "target": torch.tensor([m.target for m in batch]),
    }


def segment_sum(values: Tensor, owner: Tensor, n: int) -> Tensor:
    return values.new_zeros(n, values.shape[-1]).index_add(0, owner, values)


def segment_mean(values: Tensor, owner: Tensor, n: int) -> Tensor:
    count = torch.bincount(owner, minlength=n).clamp(min=1).unsqueeze(-1)
    return segment_sum(values, owner, n) / count


def gated_sum(values: Tensor, owner: Tensor, n: int, *, gate: nn.Module, norm: Callable[[Tensor], Tensor]) -> Tensor:
    return segment_sum(norm(gate(values)) * values, owner, n)


READOUTS: dict[str, Callable[[nn.Module], Callable[[Tensor, Tensor, int], Tensor]]] = {
    "mean": lambda gate: segment_mean,
    "gated": lambda gate: partial(gated_sum, gate=gate, norm=torch.sigmoid),
    "attention": lambda gate: partial(gated_sum, gate=gate, norm=partial(torch.softmax, dim=0)),
}


class MessagePassing(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU())
        self.update = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        src, dst = edges
        inbox = segment_mean(self.message(torch.cat([x[src], x[dst]], -1)), dst, len(x))
        return self.norm(x + F.silu(self.update(torch.cat([x, inbox], -1))))


class PropertyNet(nn.Module):
    def __init__(self, width: int, depth: int, readout: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(ATOMS, width)
        self.layers = nn.ModuleList(MessagePassing(width) for _ in range(depth))
        self.gate = nn.Linear(width, 1, bias=False)
        self.pool = READOUTS[readout](self.gate)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        x = self.embed(batch["kinds"])
        for layer in self.layers:
            x = layer(x, batch["edges"])
        return self.head(self.pool(x, batch["owner"], int(batch["owner"][-1]) + 1)).squeeze(-1)


@torch.no_grad()
def mean_absolute_error(model: nn.Module, loader: DataLoader, mean: float, std: float) -> float:
    model.eval()
    total, count = 0.0, 0
    for batch in loader:
        total += (model(batch) * std + mean - batch["target"]).abs().sum().item()
        count += len(batch["target"])
    return total / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--readout", choices=sorted(READOUTS), default="attention")
    parser.add_argument("--width", type=int, default=40)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(5)
    torch.set_num_threads(1)

    rng = random.Random(17)
    molecules = [random_molecule(rng) for _ in range(1900)]
    train, valid = molecules[:1500], molecules[1500:]
    targets = torch.tensor([m.target for m in train])
    mean, std = targets.mean().item(), targets.std().item()
    train_loader = DataLoader(train, 32, shuffle=True, collate_fn=collate, drop_last=True)
    valid_loader = DataLoader(valid, 32, collate_fn=collate)

    model = PropertyNet(args.width, args.depth, args.readout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        model.train()
        seen = 0.0
        for batch in train_loader:
            loss = F.smooth_l1_loss(model(batch), (batch["target"] - mean) / std)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            seen += loss.item()
        mae = mean_absolute_error(model, valid_loader, mean, std)
        print(f"epoch {epoch} loss {seen / len(train_loader):.4f} valid mae {mae:.4f}")


if __name__ == "__main__":
    main()
