# kind: behind indirection
# expect: nothing
# like: evaluated-with-grad
# why: Validation records graphs on purpose: the forces are the negative gradient of the predicted energy, taken with
#      autograd.grad in evaluation too (without create_graph), so the graphs are used.
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

N_ATOMS = 5


class Frame(NamedTuple):
    pos: torch.Tensor
    energy: torch.Tensor
    force: torch.Tensor


def pair_distances(pos):
    i, j = torch.triu_indices(N_ATOMS, N_ATOMS, 1)
    return (pos[:, i] - pos[:, j]).norm(dim=-1)


def differentiable(energy_fn):
    """Turns a function of positions into one that returns energy and forces."""

    def both(pos, *, higher=False):
        with torch.enable_grad():
            pos = pos.detach().requires_grad_()
            energy = energy_fn(pos)
            (slope,) = torch.autograd.grad(energy.sum(), pos, create_graph=higher)
        return energy, -slope

    return both


@differentiable
def morse(pos):
    d = pair_distances(pos)
    return ((1 - torch.exp(-1.2 * (d - 1.2))) ** 2).sum(1)


class Trajectory(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        shape = torch.tensor([[0, 0, 0], [1.2, 0, 0], [0.6, 1.1, 0], [0.6, 0.4, 1.1], [0.6, -0.9, 0.5]])
        pos = shape + 0.16 * torch.randn(n, N_ATOMS, 3, generator=g)
        energy, force = morse(pos)
        self.frame = Frame(pos, energy.detach(), force.detach())

    def rescale(self, shift, scale):
        p, e, f = self.frame
        self.frame = Frame(p, (e - shift) / scale, f / scale)
        return self

    def __len__(self):
        return len(self.frame.pos)

    def __getitem__(self, i):
        return Frame(*(t[i] for t in self.frame))


class Potential(nn.Module):
    def __init__(self, basis=16, width=48):
        super().__init__()
        self.register_buffer("centre", torch.linspace(0.6, 2.8, basis))
        self.pair = nn.Sequential(nn.Linear(basis, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def energy(self, pos):
        d = pair_distances(pos)[..., None]
        return self.pair(torch.exp(-18 * (d - self.centre) ** 2)).sum((1, 2))

    def forward(self, pos):
        return differentiable(self.energy)(pos, higher=self.training)


def main():
    torch.manual_seed(90)
    train = Trajectory(800, 1)
    shift, scale = train.frame.energy.mean(), train.frame.energy.std()
    train.rescale(shift, scale)
    valid = Trajectory(200, 2).rescale(shift, scale)
    loader = DataLoader(train, 25, shuffle=True)
    check = DataLoader(valid, 50)
    net = Potential()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    mse = nn.functional.mse_loss
    for epoch in range(8):
        net.train()
        total = 0.0
        for pos, energy, force in loader:
            e, f = net(pos)
            loss = mse(e, energy) + 0.5 * mse(f, force)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(pos)
        net.eval()
        e_err = f_err = 0.0
        for pos, energy, force in check:
            e, f = net(pos)
            e_err += (e.detach() - energy).abs().sum().item()
            f_err += (f - force).abs().mean((1, 2)).sum().item()
        print(f"epoch {epoch} loss {total / len(train):.4f} valid |dE| {e_err / len(valid):.4f} |dF| {f_err / len(valid):.4f}")


main()
