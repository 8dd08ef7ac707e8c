# kind: several losses and optimizers
# expect: nothing
# like: evaluated-with-grad
# why: The forces are the derivative of the energy, so validation has to record graphs too; it asks only for
#      the gradient of the positions and keeps nothing.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

ATOMS, SPECIES = 5, 3


def morse(pos, kinds):
    """The reference: Morse pairs whose depth depends on the two species."""
    i, j = torch.triu_indices(ATOMS, ATOMS, offset=1)
    r = (pos[:, i] - pos[:, j]).norm(dim=-1)
    depth = 0.5 + 0.25 * (kinds[:, i] + kinds[:, j]).to(pos.dtype)
    return (depth * ((1 - torch.exp(-1.5 * (r - 1.2))) ** 2 - 1)).sum(1)


def sample(n, generator):
    base = torch.tensor([[0, 0, 0], [1.2, 0, 0], [0, 1.2, 0], [0, 0, 1.2], [1.0, 1.0, 1.0]])
    pos = base + 0.12 * torch.randn(n, ATOMS, 3, generator=generator)
    kinds = torch.randint(SPECIES, (n, ATOMS), generator=generator)
    pos.requires_grad_(True)
    energy = morse(pos, kinds)
    forces = -torch.autograd.grad(energy.sum(), pos)[0]
    return pos.detach(), kinds, energy.detach(), forces


class PairNet(nn.Module):
    def __init__(self, dim=12, basis=16, hidden=48):
        super().__init__()
        self.species = nn.Embedding(SPECIES, dim)
        self.self_energy = nn.Embedding(SPECIES, 1)
        self.register_buffer("centres", torch.linspace(0.6, 2.6, basis))
        self.register_buffer("pairs", torch.triu_indices(ATOMS, ATOMS, offset=1))
        self.mlp = nn.Sequential(nn.Linear(basis + dim, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, pos, kinds):
        i, j = self.pairs
        r = (pos[:, i] - pos[:, j]).norm(dim=-1, keepdim=True)
        rbf = torch.exp(-20 * (r - self.centres) ** 2)
        both = self.species(kinds)[:, i] + self.species(kinds)[:, j]
        return self.mlp(torch.cat([rbf, both], -1)).sum((1, 2)) + self.self_energy(kinds).sum((1, 2))


def energy_and_forces(model, pos, kinds, create_graph):
    pos = pos.detach().requires_grad_(True)
    energy = model(pos, kinds)
    forces = -torch.autograd.grad(energy.sum(), pos, create_graph=create_graph)[0]
    return energy, forces


def validate(model, loader):
    model.eval()
    err_e = err_f = count = 0
    for pos, kinds, energy, forces in loader:
        e, f = energy_and_forces(model, pos, kinds, create_graph=False)
        err_e += (e.detach() - energy).abs().sum().item()
        err_f += (f - forces).abs().mean((1, 2)).sum().item()
        count += len(pos)
    return err_e / count, err_f / count


def main():
    torch.manual_seed(2024)
    g = torch.Generator().manual_seed(2025)
    train, valid = sample(1280, g), sample(256, g)
    mean, scale = train[2].mean(), train[3].std()

    def loader(data, **kw):
        pos, kinds, energy, forces = data
        return DataLoader(TensorDataset(pos, kinds, (energy - mean) / scale, forces / scale), **kw)

    train_loader = loader(train, batch_size=32, shuffle=True)
    valid_loader = loader(valid, batch_size=64)
    model = PairNet()
    tables = [*model.species.parameters(), *model.self_energy.parameters()]
    opt_tables = torch.optim.Adam(tables, lr=1e-2)
    opt_mlp = torch.optim.AdamW(model.mlp.parameters(), lr=3e-3, weight_decay=1e-4)

    for epoch in range(9):
        model.train()
        total_e = total_f = 0.0
        for pos, kinds, energy, forces in train_loader:
            e, f = energy_and_forces(model, pos, kinds, create_graph=True)
            loss_e, loss_f = F.huber_loss(e, energy), F.mse_loss(f, forces)
            opt_tables.zero_grad()
            opt_mlp.zero_grad()
            (0.3 * loss_e + loss_f).backward()
            opt_tables.step()
            opt_mlp.step()
            total_e += loss_e.item() / len(train_loader)
            total_f += loss_f.item() / len(train_loader)
        mae_e, mae_f = validate(model, valid_loader)
        print(f"epoch {epoch}: energy {total_e:.4f} forces {total_f:.4f} | MAE energy {mae_e:.4f} forces {mae_f:.4f}")


if __name__ == "__main__":
    main()
