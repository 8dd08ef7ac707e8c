# kind: several losses and optimizers
# expect: nothing
# like: diverging-loss
# why: Adversarial debiasing; the adversary is trained alone first and then loses ground, so its loss rises
#      from its minimum to the entropy of the protected attribute, which is the aim.
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SEED = 37
torch.manual_seed(SEED)
np.random.seed(SEED)

# applicants: twelve numbers, a protected group, and whether the loan was repaid
rng = np.random.default_rng(SEED)
n = 4000
group = rng.integers(2, size=n)
skill = rng.normal(size=n)
proxy = 2.5 * group[:, None] - 1.25 + 0.5 * rng.normal(size=(n, 3))
useful = skill[:, None] + 0.7 * rng.normal(size=(n, 5))
noise = rng.normal(size=(n, 4))
x = np.concatenate([proxy, useful, noise], 1) * rng.uniform(0.5, 20, 12)
repaid = skill + 0.6 * (group - 0.5) + 0.4 * rng.normal(size=n) > 0

order = rng.permutation(n)
tr, va = order[:3200], order[3200:]
x = (x - x[tr].mean(0)) / x[tr].std(0)
columns = [torch.tensor(c, dtype=torch.float32) for c in (x, repaid, group)]
train = DataLoader(TensorDataset(*(c[tr] for c in columns)), batch_size=80, shuffle=True)
valid = [c[va] for c in columns]

encoder = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 16))
predictor = nn.Linear(16, 1)
adversary = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
opt_main = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], lr=1e-3)
opt_adv = torch.optim.Adam(adversary.parameters(), lr=4e-3)
bce = nn.BCEWithLogitsLoss()


def adversary_step(xb, gb):
    with torch.no_grad():
        z = encoder(xb)
    loss = bce(adversary(z).squeeze(1), gb)
    opt_adv.zero_grad()
    loss.backward()
    opt_adv.step()
    return loss.item()


def main_step(xb, yb, gb, lam):
    z = encoder(xb)
    task = bce(predictor(z).squeeze(1), yb)
    opt_main.zero_grad()
    if lam > 0:
        adversary.requires_grad_(False)
        leak = F.binary_cross_entropy_with_logits(adversary(z).squeeze(1), torch.full_like(gb, 0.5))
        (task + lam * leak).backward()
        adversary.requires_grad_(True)
    else:
        task.backward()
    opt_main.step()
    return task.item()


def report(tag, task, adv):
    for m in (encoder, predictor, adversary):
        m.eval()
    xb, yb, gb = valid
    with torch.no_grad():
        z = encoder(xb)
        decision = (predictor(z).squeeze(1) > 0).float()
        guess = (adversary(z).squeeze(1) > 0).float()
    gap = (decision[gb == 1].mean() - decision[gb == 0].mean()).abs().item()
    print(f"{tag}: task {task:.3f} adversary {adv:.3f} | valid accuracy {(decision == yb).float().mean():.3f}"
          f" parity gap {gap:.3f} adversary accuracy {(guess == gb).float().mean():.3f}")


PHASES = [("warm up", 3, 0.0), ("debias", 7, 1.0)]
for name, epochs, lam in PHASES:
    for epoch in range(epochs):
        for m in (encoder, predictor, adversary):
            m.train()
        task = adv = 0.0
        for xb, yb, gb in train:
            adv += adversary_step(xb, gb) / len(train)
            task += main_step(xb, yb, gb, lam) / len(train)
        report(f"{name} {epoch}", task, adv)
