# kind: in a second phase
# expect: best-weights-aliased
# why: the snapshot of the second phase is {k: v.detach().cpu()}, which on the CPU is the live storage; "putting the
#   best epoch back" restores the last epoch. The first phase keeps its best through torch.save and is right.
import io

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(1234)
rng = np.random.default_rng(1234)

N, P, BINS = 900, 30, 8
x = rng.normal(size=(N, P)).astype("float32")
risk = 0.9 * x[:, 0] - 0.7 * x[:, 1] + 0.6 * x[:, 2] * x[:, 3]
event_time = rng.exponential(np.exp(-risk) * 4.0)
censor_time = rng.exponential(8.0, size=N)
seen_time = np.minimum(event_time, censor_time)
happened = (event_time <= censor_time)
edges = np.quantile(seen_time, np.linspace(0, 1, BINS + 1)[1:-1])
bin_of = np.digitize(seen_time, edges)

order = rng.permutation(N)
tr, va = order[:400], order[400:]
mu, sd = x[tr].mean(0), x[tr].std(0)
X = torch.from_numpy((x - mu) / sd)
K = torch.from_numpy(bin_of).long()
D = torch.from_numpy(happened.astype("float32"))
tr, va = torch.from_numpy(tr), torch.from_numpy(va)


def hazard_nll(logits, k, d):
    # every interval up to the last seen one is a Bernoulli trial
    grid = torch.arange(BINS)
    at_risk = (grid <= k[:, None]).float()
    target = (grid == k[:, None]).float() * d[:, None]
    each = F.binary_cross_entropy_with_logits(logits, target, reduction="none") * at_risk
    return each.sum(1).mean()


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(P, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU())

    def forward(self, z):
        return self.f(z)


def epoch_of(rows, size=50):
    return rows[torch.randperm(len(rows))].split(size)


# phase one: denoising, so that the trunk knows the covariates
trunk, rebuild = Trunk(), nn.Linear(64, P)
opt = torch.optim.Adam(list(trunk.parameters()) + list(rebuild.parameters()), lr=1e-3)
fixed_noise = 0.3 * torch.randn(len(va), P, generator=torch.Generator().manual_seed(2))
best, kept = float("inf"), None
for epoch in range(25):
    trunk.train()
    for rows in epoch_of(tr):
        clean = X[rows]
        loss = F.mse_loss(rebuild(trunk(clean + 0.3 * torch.randn_like(clean))), clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
    trunk.eval()
    with torch.no_grad():
        held = F.mse_loss(rebuild(trunk(X[va] + fixed_noise)), X[va]).item()
    if held < best:
        best, kept = held, io.BytesIO()
        torch.save(trunk.state_dict(), kept)
kept.seek(0)
trunk.load_state_dict(torch.load(kept))
print(f"denoising: best valid mse {best:.4f}")

# phase two: hazards
model = nn.Sequential(trunk, nn.Linear(64, BINS))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)


def snapshot(m):
    return {name: t.detach().cpu() for name, t in m.state_dict().items()}


def validate():
    model.eval()
    with torch.no_grad():
        return hazard_nll(model(X[va]), K[va], D[va]).item()


best, best_epoch, weights = float("inf"), -1, None
for epoch in range(45):
    model.train()
    total = 0.0
    for rows in epoch_of(tr):
        loss = hazard_nll(model(X[rows]), K[rows], D[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(rows)
    held = validate()
    if held < best:
        best, best_epoch, weights = held, epoch, snapshot(model)
    if epoch % 5 == 0:
        print(f"hazards: epoch {epoch:2d}  train {total / len(tr):.3f}  valid {held:.3f}")

model.load_state_dict(weights)
print(f"best epoch {best_epoch} ({best:.3f}); restored model has {validate():.3f}")
