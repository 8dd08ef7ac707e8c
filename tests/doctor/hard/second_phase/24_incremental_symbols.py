# kind: in a second phase
# expect: teacher-shares-weights
# why: the "old" network of learning without forgetting is the very object that goes on training (nothing is copied), so
#      the distillation term is always zero and the old classes are forgotten.
"""Incremental symbol recognition: classes 0-3 first, then 4-7, with a distillation term against forgetting."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def symbols(count, classes, generator):
    prototypes = torch.randn(8, 100, generator=torch.Generator().manual_seed(888))
    label = classes[torch.randint(0, len(classes), (count,), generator=generator)]
    return 0.3 * prototypes[label] + torch.randn(count, 100, generator=generator), label


class SymbolNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(100, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 8)

    def forward(self, x):
        return self.head(self.body(x))


class LearningWithoutForgetting:
    """Keeps the outputs for the old classes where they were (Li & Hoiem)."""

    def __init__(self, network, old_classes, temperature=2.0, weight=2.0):
        self.network = network
        self.old_classes = old_classes
        self.temperature, self.weight = temperature, weight

    def __call__(self, x, logits):
        self.network.eval()
        with torch.no_grad():
            before = F.log_softmax(self.network(x)[:, self.old_classes] / self.temperature, dim=1)
        self.network.train()
        now = F.log_softmax(logits[:, self.old_classes] / self.temperature, dim=1)
        kl = F.kl_div(now, before, reduction="batchmean", log_target=True)
        return self.weight * self.temperature**2 * kl


def task_accuracy(model, x, y):
    classes = y.unique()
    return (classes[model(x)[:, classes].argmax(1)] == y).float().mean().item()


def run(name, model, data, tests, epochs, lr, penalty=None, batch=32):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    x, y = data
    classes = y.unique()  # every task has its own four outputs
    for epoch in range(epochs):
        model.train()
        total = kept = 0.0
        for idx in torch.randperm(len(x)).split(batch):
            logits = model(x[idx])
            loss = F.cross_entropy(logits[:, classes], y[idx] - classes[0])
            if penalty is not None:
                term = penalty(x[idx], logits)
                kept += term.item() * len(idx)
                loss = loss + term
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            acc = [f"{task_accuracy(model, tx, ty):.3f}" for tx, ty in tests]
        print(f"{name} epoch {epoch}: loss {total / len(x):.4f}  distillation {kept / len(x):.4f}  accuracy {acc}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, nargs=2, default=[8, 8])
    args = parser.parse_args()
    torch.manual_seed(76)
    generator = torch.Generator().manual_seed(76)
    old, new = torch.arange(0, 4), torch.arange(4, 8)
    tests = [symbols(512, old, generator), symbols(512, new, generator)]

    model = SymbolNet()
    run("old", model, symbols(1920, old, generator), tests[:1], args.epochs[0], lr=1e-3)
    penalty = LearningWithoutForgetting(model, old)
    run("new", model, symbols(1920, new, generator), tests, args.epochs[1], lr=5e-4, penalty=penalty)


if __name__ == "__main__":
    main()
