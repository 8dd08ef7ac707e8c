# kind: without a DataLoader
# expect: detached-loss
# why: The graphs of a basket go through one by one and their losses are put together with torch.tensor(..., requires_grad=True),
#      a new leaf: backward stops there and no parameter ever gets a gradient.
import random
from typing import NamedTuple

import torch
from torch import nn


class Molecule(NamedTuple):
    atoms: torch.Tensor     # (n,)
    bonds: torch.Tensor     # (n, n)
    energy: torch.Tensor    # ()


def make_molecule(gen):
    n = int(torch.randint(4, 13, (1,), generator=gen))
    atoms = torch.randint(0, 5, (n,), generator=gen)
    bonds = torch.zeros(n, n)
    for i in range(1, n):
        j = int(torch.randint(0, i, (1,), generator=gen))
        bonds[i, j] = bonds[j, i] = 1.0
    charge = torch.tensor([-1.0, 0.5, 1.0, -0.3, 0.8])[atoms]
    energy = (charge[:, None] * charge[None] * bonds).sum() / n + charge.mean()
    return Molecule(atoms, bonds, energy + 0.05 * torch.randn((), generator=gen))


class MessageNet(nn.Module):
    def __init__(self, kinds=5, dim=32, rounds=2):
        super().__init__()
        self.embed = nn.Embedding(kinds, dim)
        self.send = nn.ModuleList(nn.Linear(dim, dim) for _ in range(rounds))
        self.keep = nn.ModuleList(nn.Linear(dim, dim) for _ in range(rounds))
        self.read = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, atoms, bonds):
        h = self.embed(atoms)
        for send, keep in zip(self.send, self.keep):
            h = torch.relu(keep(h) + bonds @ send(h))
        return self.read(h.mean(0)).squeeze(-1)


def baskets(items, size, rng):
    """Graphs of different size cannot be stacked, so a batch is a list."""
    order = rng.sample(range(len(items)), len(items))
    for lo in range(0, len(order), size):
        yield [items[i] for i in order[lo:lo + size]]


def basket_loss(model, basket, criterion):
    losses, weights = [], []
    for mol in basket:
        losses.append(criterion(model(mol.atoms, mol.bonds), mol.energy))
        weights.append(len(mol.atoms) ** 0.5)
    weights = torch.tensor(weights)
    losses = torch.tensor([l.item() for l in losses], requires_grad=True)
    return (weights * losses).sum() / weights.sum()


class Scaler:
    def __init__(self, molecules):
        e = torch.stack([m.energy for m in molecules])
        self.mean, self.std = e.mean(), e.std()

    def __call__(self, molecules):
        return [m._replace(energy=(m.energy - self.mean) / self.std) for m in molecules]


def main(seed=70, epochs=8, size=20):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    gen = torch.Generator().manual_seed(seed)
    molecules = [make_molecule(gen) for _ in range(640)]
    train, valid = molecules[:520], molecules[520:]
    scale = Scaler(train)
    train, valid = scale(train), scale(valid)

    model = MessageNet()
    criterion = nn.MSELoss()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        model.train()
        seen, total = 0, 0.0
        for basket in baskets(train, size, rng):
            opt.zero_grad()
            loss = basket_loss(model, basket, criterion)
            loss.backward()
            opt.step()
            total += loss.item() * len(basket)
            seen += len(basket)
        model.eval()
        with torch.no_grad():
            errors = [criterion(model(m.atoms, m.bonds), m.energy).item() for m in valid]
        print(f"epoch {epoch} train {total / seen:.4f} valid {sum(errors) / len(errors):.4f}")


if __name__ == "__main__":
    main()
