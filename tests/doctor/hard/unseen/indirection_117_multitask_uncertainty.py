# kind: indirection
# expect: nothing
# why: Might be accused of diverging-loss, graph-kept, update-below-precision or one-cycle-max-lr: autocast leaves the weights in float32, the weighted sum changes meaning as the learned task weights move, the logged parts are detached, missing labels are masked and counted, and OneCycle is stepped per batch over exactly all batches.
"""Three tasks on one trunk (regression, classes, counts) with learned uncertainty weights and missing labels."""
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, x, targets):
        self.x, self.targets = x, targets

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], **{k: v[i] for k, v in self.targets.items()}}


def simulate(n, gen):
    x = torch.randn(n, 12, generator=gen)
    hidden = torch.tanh(x[:, :4] @ torch.tensor([[1.0, -1], [0.5, 1], [-1, 0.3], [0.2, 0.8]]))
    price = 2 * hidden[:, 0] - hidden[:, 1] + 0.2 * torch.randn(n, generator=gen)
    kind = (hidden[:, 0] + 0.2 * torch.randn(n, generator=gen) > 0).long() + (hidden[:, 1] > 0.4).long()
    visits = torch.poisson(torch.exp(0.8 * hidden[:, 1] + 0.3), generator=gen)
    price[torch.rand(n, generator=gen) < 0.3] = float("nan")
    kind[torch.rand(n, generator=gen) < 0.2] = -100
    visits[torch.rand(n, generator=gen) < 0.4] = float("nan")
    return x, {"price": price, "kind": kind, "visits": visits}


class MultiTask(nn.Module):
    def __init__(self, inputs=12, width=64):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(inputs, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, width), nn.GELU()
        )
        self.heads = nn.ModuleDict({"price": nn.Linear(width, 1), "kind": nn.Linear(width, 3), "visits": nn.Linear(width, 1)})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h).squeeze(-1) for name, head in self.heads.items()}


def task_losses(out, batch):
    """Sum and count of every task over the samples that carry its label."""
    have_price, have_visits = ~batch["price"].isnan(), ~batch["visits"].isnan()
    return {
        "price": (F.mse_loss(out["price"][have_price], batch["price"][have_price], reduction="sum"), have_price.sum()),
        "kind": (F.cross_entropy(out["kind"], batch["kind"], reduction="sum"), (batch["kind"] != -100).sum()),
        "visits": (F.poisson_nll_loss(out["visits"][have_visits], batch["visits"][have_visits], full=True, reduction="sum"), have_visits.sum()),
    }


class UncertaintyWeights(nn.Module):
    """Each task weighs exp(-s) and pays s / 2 for it, after Kendall et al."""

    def __init__(self, names):
        super().__init__()
        self.s = nn.ParameterDict({n: nn.Parameter(torch.zeros(())) for n in names})

    def forward(self, losses):
        return sum(torch.exp(-self.s[n]) * value + 0.5 * self.s[n] for n, value in losses.items())


class Meter:
    def __init__(self):
        self.total, self.count = defaultdict(float), defaultdict(int)

    def add(self, name, total, count):
        self.total[name] += total.detach()
        self.count[name] += int(count)

    def means(self):
        return {n: float(self.total[n]) / max(self.count[n], 1) for n in self.total}


class Trainer:
    def __init__(self, model, weights, train, valid, epochs, max_lr=3e-3):
        self.model, self.weights, self.train, self.valid, self.epochs = model, weights, train, valid, epochs
        decay = [p for p in model.parameters() if p.ndim > 1]
        plain = [p for p in model.parameters() if p.ndim <= 1] + list(weights.parameters())
        groups = [{"params": decay, "weight_decay": 1e-2}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=max_lr / 25)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=max_lr, total_steps=epochs * len(train))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.model(x)
        return {name: value.float() for name, value in out.items()}

    def train_epoch(self):
        self.model.train()
        meter = Meter()
        for batch in self.train:
            parts = task_losses(self.forward(batch["x"]), batch)
            loss = self.weights({n: total / count.clamp_min(1) for n, (total, count) in parts.items()})
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            for name, (total, count) in parts.items():
                meter.add(name, total, count)
            meter.add("weighted", loss * len(batch["x"]), len(batch["x"]))
        return meter.means()

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        meter = Meter()
        for batch in loader:
            out = self.forward(batch["x"])
            for name, (total, count) in task_losses(out, batch).items():
                meter.add(name, total, count)
            known = batch["kind"] != -100
            meter.add("accuracy", (out["kind"].argmax(-1)[known] == batch["kind"][known]).sum(), known.sum())
        return meter.means()

    def fit(self):
        for epoch in range(1, self.epochs + 1):
            train, valid = self.train_epoch(), self.evaluate(self.valid)
            if epoch % 4 == 0:
                print(epoch, "train", {k: round(v, 3) for k, v in train.items()})
                print(epoch, "valid", {k: round(v, 3) for k, v in valid.items()})


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(42)
    train = DataLoader(Records(*simulate(3000, gen)), batch_size=64, shuffle=True)
    valid = DataLoader(Records(*simulate(700, gen)), batch_size=256)
    net = MultiTask()
    weights = UncertaintyWeights(net.heads)
    Trainer(net, weights, train, valid, epochs=12).fit()
    print("log variances", {n: round(p.item(), 2) for n, p in weights.s.items()})
