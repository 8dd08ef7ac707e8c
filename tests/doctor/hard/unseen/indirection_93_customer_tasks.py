# kind: classes and callbacks
# expect: single-class-loss
# also: constant-loss
# why: The "churn" task has one output column and float (N,1) targets but uses cross_entropy, whose softmax over a single class is always 1: its loss and gradients are exactly zero and the churn head never learns, while the spend loss makes the total fall.
"""Customer model: churn and spend tasks trained together by a small framework."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(131)


class Task:
    def __init__(self, name, outputs, column):
        self.name, self.outputs, self.column = name, outputs, column

    def target(self, y):
        return y[:, self.column:self.column + 1]


class Classification(Task):
    def loss(self, out, y):
        return F.cross_entropy(out, self.target(y), label_smoothing=0.02)

    def metric(self, out, y):
        return ((out > 0) == (self.target(y) > 0.5)).float().mean().item()


class Regression(Task):
    def loss(self, out, y):
        return F.huber_loss(out, self.target(y))

    def metric(self, out, y):
        return F.l1_loss(out, self.target(y)).item()


class CustomerModel(nn.Module):
    def __init__(self, features, tasks, hidden=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(),
                                   nn.Linear(hidden, hidden), nn.ReLU())
        self.heads = nn.ModuleDict({t.name: nn.Linear(hidden, t.outputs) for t in tasks})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


class MetricsCallback:
    def __init__(self, x, y):
        self.x, self.y = x, y

    @torch.no_grad()
    def __call__(self, learner):
        learner.model.eval()
        out = learner.model(self.x)
        learner.model.train()
        text = " ".join(f"{t.name} {t.metric(out[t.name], self.y):.3f}" for t in learner.tasks)
        print(f"epoch {learner.epoch} loss {learner.smooth:.4f} | valid: {text}")


class Learner:
    def __init__(self, model, tasks, lr, callbacks):
        self.model, self.tasks, self.callbacks = model, tasks, callbacks
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-4)
        self.epoch, self.smooth = 0, 0.0

    def total(self, out, y):
        return torch.stack([t.loss(out[t.name], y) for t in self.tasks]).sum()

    def fit(self, loader, epochs):
        for self.epoch in range(epochs):
            for x, y in loader:
                self.opt.zero_grad()
                loss = self.total(self.model(x), y)
                loss.backward()
                self.opt.step()
                self.smooth = 0.95 * self.smooth + 0.05 * loss.item()
            for callback in self.callbacks:
                callback(self)


def make_data(n, g, w):
    x = torch.randn(n, 15, generator=g)
    churn = (x @ w[0] + 0.3 * torch.randn(n, generator=g) > 0).float()
    spend = torch.relu(x @ w[1]) + 0.1 * torch.randn(n, generator=g)
    return x, torch.stack([churn, spend], 1)


def main():
    g = torch.Generator().manual_seed(43)
    w = torch.randn(2, 15, generator=g) / 2
    train, valid = make_data(3200, g, w), make_data(1024, g, w)
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    tasks = [Classification("churn", 1, 0), Regression("spend", 1, 1)]
    model = CustomerModel(15, tasks)
    Learner(model, tasks, 2e-3, [MetricsCallback(*valid)]).fit(loader, 6)


if __name__ == "__main__":
    main()
