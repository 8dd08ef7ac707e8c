# kind: several losses and optimizers
# expect: nothing
# like: graph-retained
# why: The trunk's gradient is taken once per task, with retain_graph, and then the heads' once more from the sum;
#      the graph ends with the step and nothing of it lives on into the next batch.
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

INTERVALS = 8


def cohort(n, seed):
    """Patients with covariates, a censored survival time, a side effect and a quality-of-life score."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 14)) * np.linspace(0.5, 5, 14) + np.linspace(-3, 3, 14)
    z = (x - np.linspace(-3, 3, 14)) / np.linspace(0.5, 5, 14)
    risk = 0.8 * z[:, 0] - 0.6 * z[:, 1] * z[:, 2] + 0.4 * z[:, 3]
    time = rng.exponential(np.exp(-risk))
    censor = rng.exponential(2.0, n)
    observed = (time <= censor).astype(np.float32)
    edges = np.array([0.1, 0.25, 0.45, 0.7, 1.0, 1.5, 2.5])
    interval = np.digitize(np.minimum(time, censor), edges)
    effect = (z[:, 4] + np.tanh(2 * z[:, 0]) + 0.5 * rng.normal(size=n) > 0).astype(np.float32)
    quality = -risk + 0.5 * z[:, 5] + 0.3 * rng.normal(size=n)
    as_tensor = lambda a, t=torch.float32: torch.as_tensor(a, dtype=t)
    return [as_tensor(x), as_tensor(interval, torch.long), as_tensor(observed), as_tensor(effect), as_tensor(quality)]


def survival_nll(logits, interval, observed):
    """Discrete-time hazards; the interval of the event counts only for those who were observed."""
    steps = torch.arange(INTERVALS)
    survived = (steps < interval[:, None]).float()
    died = (steps == interval[:, None]).float() * observed[:, None]
    per_step = F.binary_cross_entropy_with_logits(logits, died, reduction="none")
    return (per_step * (survived + died)).sum(1).mean()


def task_losses(trunk, heads, batch):
    x, interval, observed, effect, quality = batch
    z = trunk(x)
    return [
        survival_nll(heads["hazard"](z), interval, observed),
        F.binary_cross_entropy_with_logits(heads["effect"](z).squeeze(1), effect),
        F.mse_loss(heads["quality"](z).squeeze(1), quality),
    ]


def pcgrad(per_task):
    flat = [torch.cat([g.flatten() for g in grads]) for grads in per_task]
    total = torch.zeros_like(flat[0])
    for i, own in enumerate(flat):
        g = own.clone()
        for j in torch.randperm(len(flat)).tolist():
            if j != i and (dot := g @ flat[j]) < 0:
                g -= dot / (flat[j] @ flat[j] + 1e-12) * flat[j]
        total += g
    return total


def train_step(trunk, heads, opt_trunk, opt_heads, batch):
    losses = task_losses(trunk, heads, batch)
    shared = list(trunk.parameters())
    own = list(heads.parameters())
    per_task = [torch.autograd.grad(loss, shared, retain_graph=True) for loss in losses]
    head_grads = torch.autograd.grad(sum(losses), own)
    for p, g in zip(own, head_grads):
        p.grad = g
    for p, g in zip(shared, pcgrad(per_task).split([p.numel() for p in shared])):
        p.grad = g.view_as(p)
    opt_trunk.step()
    opt_heads.step()
    opt_trunk.zero_grad()
    opt_heads.zero_grad()
    return [loss.item() for loss in losses]


def main():
    torch.manual_seed(48)
    train, valid = cohort(2560, seed=1), cohort(640, seed=2)
    for col in (0, 4):
        mean, std = train[col].mean(0), train[col].std(0)
        train[col], valid[col] = (train[col] - mean) / std, (valid[col] - mean) / std
    trunk = nn.Sequential(nn.Linear(14, 64), nn.SiLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.SiLU())
    heads = nn.ModuleDict({"hazard": nn.Linear(32, INTERVALS), "effect": nn.Linear(32, 1), "quality": nn.Linear(32, 1)})
    opt_trunk = torch.optim.AdamW(trunk.parameters(), lr=2e-3, weight_decay=1e-3)
    opt_heads = torch.optim.Adam(heads.parameters(), lr=3e-3)

    for epoch in range(8):
        trunk.train()
        heads.train()
        history = [train_step(trunk, heads, opt_trunk, opt_heads, [c[idx] for c in train])
                   for idx in torch.randperm(2560).split(64)]
        trunk.eval()
        heads.eval()
        with torch.no_grad():
            val = [v.item() for v in task_losses(trunk, heads, valid)]
        names = ("survival", "effect", "quality")
        means = np.mean(history, 0)
        print(f"epoch {epoch} " + " ".join(f"{n} {t:.3f}/{v:.3f}" for n, t, v in zip(names, means, val)))


if __name__ == "__main__":
    main()
