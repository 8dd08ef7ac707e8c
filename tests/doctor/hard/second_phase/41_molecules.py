# kind: in a second phase
# expect: dead-parameter
# why: embed() carries @torch.no_grad() from the probing phase; in the fine-tuning phase the encoder is thawed and in the
#   optimizer, but predict() still goes through embed(), so the encoder never gets a gradient there.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

ATOMS, KINDS, MASK = 14, 7, 7


def random_molecules(n, seed):
    g = torch.Generator().manual_seed(seed)
    kind = torch.multinomial(torch.tensor([.4, .2, .15, .1, .07, .05, .03]), n * ATOMS, True, generator=g).view(n, ATOMS)
    bond = torch.zeros(n, ATOMS, ATOMS)
    rows = torch.arange(n)
    for a in range(1, ATOMS):                       # a random tree ...
        parent = (torch.rand(n, generator=g) * a).long()
        bond[rows, a, parent] = 1
        bond[rows, parent, a] = 1
        same = torch.rand(n, generator=g) < 0.45    # ... in which neighbours tend to be alike
        kind[:, a] = torch.where(same, kind[rows, parent], kind[:, a])
    hetero = ((kind == 1) | (kind == 2)).float()
    pairs = torch.einsum("na,nab,nb->n", hetero, bond, hetero) / 2
    polar = pairs - 0.4 * (kind == 4).sum(1) + 0.1 * torch.randn(n, generator=g)
    return kind, bond, polar


class Encoder(nn.Module):
    def __init__(self, dim=48, layers=3):
        super().__init__()
        self.atom = nn.Embedding(KINDS + 1, dim)
        self.own = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.near = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, kind, bond):
        h = self.atom(kind)
        for own, near, norm in zip(self.own, self.near, self.norm):
            h = h + F.relu(norm(own(h) + near(bond @ h)))
        return h


class MoleculeModel(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.encoder = Encoder(dim)
        self.fill = nn.Linear(dim, KINDS)
        self.head = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def masked(self, kind, bond, hide):
        h = self.encoder(kind.masked_fill(hide, MASK), bond)
        return self.fill(h[hide])

    @torch.no_grad()
    def embed(self, kind, bond):
        h = self.encoder(kind, bond)
        return torch.cat([h.mean(1), h.amax(1)], 1)

    def predict(self, kind, bond):
        return self.head(self.embed(kind, bond)).squeeze(1)


def draw(n, size):
    return (rows for rows in torch.randperm(n).split(size))


def mae(model, data, centre, scale):
    model.eval()
    with torch.no_grad():
        guess = model.predict(data[0], data[1]) * scale + centre
        return (guess - data[2]).abs().mean().item()


def fit(tag, model, opt, data, valid, epochs):
    kind, bond, polar = data
    centre, scale = polar.mean(), polar.std()
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for rows in draw(len(kind), 40):
            loss = F.mse_loss(model.predict(kind[rows], bond[rows]), (polar[rows] - centre) / scale)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        print(f"{tag} {epoch}  mse {total / len(kind):.4f}  valid mae {mae(model, valid, centre, scale):.4f}")


def main():
    torch.manual_seed(31)
    pool_kind, pool_bond, _ = random_molecules(4000, seed=1)
    labelled, valid = random_molecules(1200, seed=2), random_molecules(400, seed=3)
    model = MoleculeModel()

    opt = torch.optim.AdamW([*model.encoder.parameters(), *model.fill.parameters()], lr=1e-3)
    model.train()
    for epoch in range(2):
        for rows in draw(len(pool_kind), 50):
            kind, bond = pool_kind[rows], pool_bond[rows]
            hide = torch.rand(kind.shape) < 0.2
            loss = F.cross_entropy(model.masked(kind, bond, hide), kind[hide])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"pretrain {epoch}  last loss {loss.item():.3f}")

    model.encoder.requires_grad_(False)
    fit("probe", model, torch.optim.AdamW(model.head.parameters(), lr=2e-3), labelled, valid, 3)

    model.encoder.requires_grad_(True)
    opt = torch.optim.AdamW([{"params": model.encoder.parameters(), "lr": 5e-4},
                             {"params": model.head.parameters(), "lr": 1e-3}])
    fit("tune", model, opt, labelled, valid, 6)


if __name__ == "__main__":
    main()
