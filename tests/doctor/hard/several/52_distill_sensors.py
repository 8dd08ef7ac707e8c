# kind: several losses and optimizers
# expect: nothing
# like: kl-on-probabilities
# why: Distillation in which both sides of the KL divergence are log-probabilities; log_target=True says so.
#      The teacher is trained first, then frozen, put in eval mode, and asked under no_grad.
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

MODELS = {}


def register(name):
    def wrap(fn):
        MODELS[name] = fn
        return fn
    return wrap


@register("wide")
def wide(d, c):
    return nn.Sequential(nn.Linear(d, 192), nn.BatchNorm1d(192), nn.ReLU(), nn.Dropout(0.2), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, c))


@register("tiny")
def tiny(d, c):
    return nn.Sequential(nn.Linear(d, 24), nn.ReLU(), nn.Linear(24, c))


def gas_readings(n, d=32, classes=8, seed=0):
    world = torch.Generator().manual_seed(900)
    centres = torch.randn(classes, 3, d, generator=world)
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    which = torch.randint(3, (n,), generator=g)
    return centres[y, which] + 0.9 * torch.randn(n, d, generator=g), y


def soft_loss(student_logits, teacher_logits, temperature):
    s = F.log_softmax(student_logits / temperature, dim=1)
    t = F.log_softmax(teacher_logits / temperature, dim=1)
    return F.kl_div(s, t, reduction="batchmean", log_target=True) * temperature ** 2


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def fit(model, optimizer, loader, epochs, terms, report):
    """`terms(x, y, logits)` gives the named parts of the loss with their weights."""
    for epoch in range(epochs):
        model.train()
        log = defaultdict(float)
        for x, y in loader:
            parts = terms(x, y, model(x))
            loss = sum(weight * value for weight, value in parts.values())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            for name, (_, value) in parts.items():
                log[name] += value.item() * len(x) / len(loader.dataset)
        report(epoch, log)


def main():
    torch.manual_seed(14)
    x, y = gas_readings(2400, seed=1)
    xv, yv = gas_readings(600, seed=2)
    mean, std = x.mean(0), x.std(0)
    x, xv = (x - mean) / std, (xv - mean) / std
    train = DataLoader(TensorDataset(x, y), batch_size=80, shuffle=True)
    valid = DataLoader(TensorDataset(xv, yv), batch_size=200)

    def reporter(title, model):
        def report(epoch, log):
            parts = " ".join(f"{k} {v:.3f}" for k, v in log.items())
            print(f"{title} {epoch}: {parts} | valid accuracy {accuracy(model, valid):.3f}")
        return report

    teacher = MODELS["wide"](32, 8)
    opt_teacher = torch.optim.AdamW(teacher.parameters(), lr=2e-3, weight_decay=1e-2)
    fit(teacher, opt_teacher, train, 5,
        lambda x, y, out: {"hard": (1.0, F.cross_entropy(out, y, label_smoothing=0.05))}, reporter("teacher", teacher))
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad_(False)

    student = MODELS["tiny"](32, 8)
    opt_student = torch.optim.SGD(student.parameters(), lr=0.03, momentum=0.9, nesterov=True)

    def terms(x, y, out):
        with torch.no_grad():
            wisdom = teacher(x)
        return {"hard": (0.3, F.cross_entropy(out, y)), "soft": (0.7, soft_loss(out, wisdom, temperature=3.0))}

    fit(student, opt_student, train, 8, terms, reporter("student", student))


if __name__ == "__main__":
    main()
