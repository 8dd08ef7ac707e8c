# kind: several losses and optimizers
# expect: gradients-discarded
# why: Before each task's backward everything is cleared, to read that task's gradient of the trunk; this also
#      throws away the heads' gradients of the tasks before, so only the last head ever learns.
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def set_seed(seed):
    random.seed(seed)
    torch.manual_seed(seed)


class Machines(Dataset):
    """Vibration features of machines: remaining life (regression), fault kind (4), overheating (binary)."""

    def __init__(self, n, seed):
        world = torch.Generator().manual_seed(1000)
        w = torch.randn(18, 6, generator=world) / 18 ** 0.5
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 18, generator=g)
        h = torch.tanh(self.x @ w * 1.5)
        self.life = h[:, 0] - h[:, 1] + 0.1 * torch.randn(n, generator=g)
        self.fault = h[:, 1:5].argmax(1)
        self.heat = (h[:, 0] + h[:, 5] > 0).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], {"life": self.life[i], "fault": self.fault[i], "heat": self.heat[i]}


LOSSES = {
    "life": lambda out, y: F.smooth_l1_loss(out.squeeze(1), y),
    "fault": lambda out, y: F.cross_entropy(out, y),
    "heat": lambda out, y: F.binary_cross_entropy_with_logits(out.squeeze(1), y),
}


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(18, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"life": nn.Linear(32, 1), "fault": nn.Linear(32, 4), "heat": nn.Linear(32, 1)})

    def forward(self, x):
        z = self.trunk(x)
        return {name: head(z) for name, head in self.heads.items()}


class Surgeon:
    """Projects conflicting gradients of the trunk onto each other's normal plane."""

    def __init__(self, model, optimizers):
        self.trunk = list(model.trunk.parameters())
        self.optimizers = optimizers

    def clear(self):
        for opt in self.optimizers:
            opt.zero_grad()

    def flat(self):
        return torch.cat([p.grad.flatten() for p in self.trunk])

    def project(self, grads):
        result = torch.zeros_like(grads[0])
        for i, g in enumerate(grads):
            g = g.clone()
            others = [o for j, o in enumerate(grads) if j != i]
            random.shuffle(others)
            for o in others:
                dot = g @ o
                if dot < 0:
                    g -= dot / o.pow(2).sum().clamp_min(1e-12) * o
            result += g
        return result

    def step(self, losses):
        grads = []
        for k, loss in enumerate(losses):
            self.clear()
            loss.backward(retain_graph=k + 1 < len(losses))
            grads.append(self.flat())
        merged, at = self.project(grads), 0
        for p in self.trunk:
            p.grad = merged[at:at + p.numel()].view_as(p)
            at += p.numel()
        for opt in self.optimizers:
            opt.step()


set_seed(55)
train = DataLoader(Machines(3200, seed=1), batch_size=80, shuffle=True)
valid = DataLoader(Machines(800, seed=2), batch_size=200)
model = MultiTask()
surgeon = Surgeon(model, [
    torch.optim.Adam(model.trunk.parameters(), lr=2e-3),
    torch.optim.Adam(model.heads.parameters(), lr=2e-3),
])

for epoch in range(10):
    model.train()
    for x, targets in train:
        out = model(x)
        surgeon.step([LOSSES[k](out[k], targets[k]) for k in LOSSES])
    model.eval()
    totals = dict.fromkeys(LOSSES, 0.0)
    with torch.no_grad():
        for x, targets in valid:
            out = model(x)
            for k in LOSSES:
                totals[k] += LOSSES[k](out[k], targets[k]).item() * len(x) / len(valid.dataset)
    print(f"epoch {epoch} valid " + " ".join(f"{k} {v:.4f}" for k, v in totals.items()))
