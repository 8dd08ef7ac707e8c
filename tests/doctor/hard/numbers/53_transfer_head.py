# kind: numbers
# expect: frozen-parameter-moves
# why: the own optimizer decays every parameter it was given before it looks whether there is a gradient, so
#   the frozen pretrained encoder shrinks step by step.
import math

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


class DecoupledAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, decay=1e-2):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, decay=decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            lr, eps, (b1, b2) = group["lr"], group["eps"], group["betas"]
            for p in group["params"]:
                if p.ndim > 1:
                    p.mul_(1 - lr * group["decay"])
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"].lerp_(p.grad, 1 - b1)
                state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                rate = lr * math.sqrt(1 - b2 ** state["t"]) / (1 - b1 ** state["t"])
                p.addcdiv_(state["m"], state["v"].sqrt().add_(eps), value=-rate)


class Encoder(nn.Module):
    def __init__(self, d, code):
        super().__init__()
        self.l1, self.l2 = nn.Linear(d, 64), nn.Linear(64, code)

    def forward(self, x):
        return torch.tanh(self.l2(F.gelu(self.l1(x))))


class WithHead(nn.Module):
    def __init__(self, encoder, code, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(code, 32), nn.GELU(), nn.Linear(32, classes))

    def forward(self, x):
        return self.head(self.encoder(x))


def spectra(n, g, wave):
    factors = torch.randn(n, 5, generator=g)
    return torch.tanh(factors @ wave) + 0.1 * torch.randn(n, wave.size(1), generator=g), factors


def pretrain(encoder, x, code, steps=250):
    decoder = nn.Linear(code, x.size(1))
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=2e-3)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (64,))]
        noisy = batch + 0.2 * torch.randn_like(batch)
        loss = F.mse_loss(decoder(encoder(noisy)), batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretraining ended at {loss.item():.4f}")


def main():
    torch.manual_seed(88)
    g = torch.Generator().manual_seed(880)
    wave = torch.randn(5, 30, generator=g)
    unlabelled, _ = spectra(4000, g, wave)
    x, factors = spectra(1500, g, wave)
    y = (factors[:, 0] > 0).long() + 2 * (factors[:, 1] * factors[:, 2] > 0).long()
    mean, std = unlabelled.mean(0), unlabelled.std(0)
    unlabelled, x = (unlabelled - mean) / std, (x - mean) / std

    code = 12
    encoder = Encoder(30, code)
    pretrain(encoder, unlabelled, code)
    encoder.requires_grad_(False)

    model = WithHead(encoder, code, classes=4)
    optimizer = DecoupledAdam(model.parameters(), lr=3e-3, decay=0.1)
    tx, ty, vx, vy = x[:1200], y[:1200], x[1200:], y[1200:]
    optimizer.zero_grad()
    for epoch in range(12):
        model.train()
        total = 0.0
        for idx in torch.randperm(1200).split(40):
            loss = F.cross_entropy(model(tx[idx]), ty[idx])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            acc = (model(vx).argmax(1) == vy).float().mean().item()
        print(f"epoch {epoch:2d} loss {total / 1200:.4f} valid acc {acc:.3f}")


main()
