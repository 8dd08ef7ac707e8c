# kind: several losses and optimizers
# expect: nothing
# like: gradients-discarded
# why: Adversarial training; the attack's backward is there for the gradient of the input only, and the
#      gradients that it leaves in the weights are thrown away on purpose before the training loss.
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SEED = 29
np.random.seed(SEED)
torch.manual_seed(SEED)


def load_transactions(n=4000, d=24):
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(n, d)) * rng.uniform(0.5, 40, d) + rng.uniform(-20, 20, d)
    z = (x - x.mean(0)) / x.std(0)
    w = rng.normal(size=(d, 2))
    score = np.tanh(z @ w[:, 0]) + 0.6 * (z @ w[:, 1]) / np.sqrt(d) + 0.3 * rng.normal(size=n)
    y = np.digitize(score, [-0.5, 0.5])
    return x.astype(np.float32), y.astype(np.int64)


def build():
    encoder = nn.Sequential(nn.Linear(24, 96), nn.LayerNorm(96), nn.GELU(), nn.Dropout(0.1), nn.Linear(96, 48), nn.GELU())
    head = nn.Linear(48, 3)
    return encoder, head, nn.Sequential(encoder, head)


def make_attack(model, eps):
    def attack(x, y):
        x = (x + 0.1 * eps * torch.randn_like(x)).requires_grad_(True)
        F.cross_entropy(model(x), y).backward()
        return (x + eps * x.grad.sign()).detach()

    return attack


def make_step(model, optimizers, attack, beta=1.0):
    def step(x, y):
        x_adv = attack(x, y)
        model.zero_grad()
        logits, logits_adv = model(x), model(x_adv)
        clean = F.cross_entropy(logits, y)
        robust = F.kl_div(F.log_softmax(logits_adv, 1), F.softmax(logits, 1), reduction="batchmean")
        (clean + beta * robust).backward()
        for opt in optimizers:
            opt.step()
        return clean.item(), robust.item()

    return step


def make_validate(model, loader):
    @torch.no_grad()
    def validate():
        model.eval()
        loss = hits = count = 0
        for x, y in loader:
            out = model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            hits += (out.argmax(1) == y).sum().item()
            count += len(y)
        return loss / count, hits / count

    return validate


x, y = load_transactions()
index = np.random.permutation(len(x))
tr, va = index[:3200], index[3200:]
mu, sd = x[tr].mean(0), x[tr].std(0)
x = torch.from_numpy((x - mu) / sd)
y = torch.from_numpy(y)
train_loader = DataLoader(TensorDataset(x[tr], y[tr]), batch_size=128, shuffle=True)
valid_loader = DataLoader(TensorDataset(x[va], y[va]), batch_size=200)

encoder, head, model = build()
optimizers = [
    torch.optim.AdamW(encoder.parameters(), lr=1e-3, weight_decay=1e-2),
    torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9),
]
step = make_step(model, optimizers, make_attack(model, eps=0.15))
validate = make_validate(model, valid_loader)

for epoch in range(14):
    model.train()
    clean, robust = np.mean([step(xb, yb) for xb, yb in train_loader], axis=0)
    loss, acc = validate()
    print(f"epoch {epoch:2d} clean {clean:.3f} robust {robust:.3f} | valid loss {loss:.3f} acc {acc:.3f}")
