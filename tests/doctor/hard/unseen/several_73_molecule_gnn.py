# kind: several losses
# expect: loss-broadcast
# why: the heteroscedastic energy loss is written by hand; mu and logvar are (B, 1), the energies (B,), so the squared error is the (B, B) table of all pairs and the energy head learns the mean of the batch with its variance.
"""Message passing on small molecules: energy with uncertainty per graph, element class per atom."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(19)

ATOMS, FEAT, ELEMENTS = 9, 8, 4
world = torch.Generator().manual_seed(400)
CENTRES = torch.randn(ELEMENTS, FEAT, generator=world)
PAIR = torch.randn(ELEMENTS, ELEMENTS, generator=world)
PAIR = (PAIR + PAIR.T) / 2


def molecules(n, gen):
    kind = torch.randint(0, ELEMENTS, (n, ATOMS), generator=gen)
    x = CENTRES[kind] + 0.5 * torch.randn(n, ATOMS, FEAT, generator=gen)
    upper = (torch.rand(n, ATOMS, ATOMS, generator=gen) < 0.3).triu(1).float()
    adj = upper + upper.transpose(1, 2)
    energy = (adj * PAIR[kind[:, :, None], kind[:, None, :]]).sum((1, 2)) / 4
    return x, adj, energy, kind


class Message(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own, self.other = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, h, adj):
        pulled = adj @ self.other(h)
        return h + F.silu(self.norm(self.own(h) + pulled + h * pulled))


class MoleculeNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.inp = nn.Linear(FEAT, width)
        self.layers = nn.ModuleList(Message(width) for _ in range(2))
        self.atom = nn.Linear(width, ELEMENTS)
        self.mu = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self.logvar = nn.Linear(width, 1)

    def forward(self, x, adj):
        h = self.inp(x)
        for layer in self.layers:
            h = layer(h, adj)
        pooled = h.sum(1) / ATOMS ** 0.5
        return self.mu(pooled), self.logvar(pooled).clamp(-6, 4), self.atom(h)


def energy_nll(mu, logvar, energy):
    precision = torch.exp(-logvar)
    return 0.5 * (precision * (energy - mu).pow(2) + logvar).mean()


def atom_loss(logits, kind):
    return F.cross_entropy(logits.flatten(0, 1), kind.flatten())


@torch.no_grad()
def validate(model, data):
    model.eval()
    x, adj, energy, kind = data
    mu, _, logits = model(x, adj)
    model.train()
    mae = (mu[:, 0] - energy).abs().mean().item()
    return mae, (logits.argmax(-1) == kind).float().mean().item()


def main():
    gen = torch.Generator().manual_seed(2)
    val = molecules(600, torch.Generator().manual_seed(3))
    spread = (val[2] - val[2].mean()).abs().mean().item()
    print(f"spread of the energies (mean absolute deviation) {spread:.3f}")
    model = MoleculeNet()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(1, 401):
        x, adj, energy, kind = molecules(64, gen)
        mu, logvar, logits = model(x, adj)
        nll = energy_nll(mu, logvar, energy)
        loss = nll + 0.5 * atom_loss(logits, kind)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step % 80 == 0:
            mae, acc = validate(model, val)
            print(f"step {step:4d}  nll {nll.item():.3f}  energy mae {mae:.3f}  atom acc {acc:.3f}")


if __name__ == "__main__":
    main()
