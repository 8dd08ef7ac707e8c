# kind: classes and callbacks
# expect: trained-in-eval-mode
# why: the validation callback saves model.training and puts it back by assigning the attribute; that changes only the flag of the outermost module, so after the first validation (step 40) every Dropout and BatchNorm inside stays in eval mode for the rest of the training.
"""Small event-driven trainer on gene-expression-like data with few samples."""
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(61)

GENES, TYPES = 120, 6


def expression(n, seed, mislabelled=0.0):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, TYPES, (n,), generator=gen)
    marker = torch.randn(TYPES, GENES, generator=torch.Generator().manual_seed(500))
    x = 0.28 * marker[y] + torch.randn(n, GENES, generator=gen)
    wrong = torch.rand(n, generator=gen) < mislabelled
    y = torch.where(wrong, torch.randint(0, TYPES, (n,), generator=gen), y)
    return TensorDataset(x, y)


class CellNet(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(GENES, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(width, TYPES))

    def forward(self, x):
        return self.net(x)


class Engine:
    def __init__(self, model, optimizer, loss_fn):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        self.handlers, self.step, self.last = defaultdict(list), 0, None

    def on(self, event, every=1):
        def register(fn):
            self.handlers[event].append((every, fn))
            return fn
        return register

    def fire(self, event, count):
        for every, fn in self.handlers[event]:
            if count % every == 0:
                fn(self)

    def run(self, loader, epochs):
        self.model.train()
        for epoch in range(1, epochs + 1):
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = self.loss_fn(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                self.step += 1
                self.last = loss.item()
                self.fire("step", self.step)
            self.fire("epoch", epoch)


class Validation:
    def __init__(self, data):
        self.x, self.y = data.tensors
        self.history = []

    @torch.no_grad()
    def __call__(self, engine):
        model = engine.model
        mode = model.training
        model.eval()
        logits = model(self.x)
        model.training = mode
        loss = F.cross_entropy(logits, self.y).item()
        acc = (logits.argmax(1) == self.y).float().mean().item()
        self.history.append((engine.step, loss, acc))


def main():
    loader = DataLoader(expression(480, 1, mislabelled=0.3), batch_size=32, shuffle=True)
    model = CellNet()
    engine = Engine(model, torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2), F.cross_entropy)
    validation = Validation(expression(1500, 2))
    engine.on("step", every=40)(validation)

    @engine.on("epoch", every=4)
    def log(e):
        step, loss, acc = validation.history[-1]
        print(f"step {e.step:4d}  train {e.last:.3f}  val (step {step}) loss {loss:.3f} acc {acc:.3f}")

    engine.run(loader, epochs=24)


if __name__ == "__main__":
    main()
