# kind: behind indirection
# expect: nothing
# like: missing-zero-grad
# why: zero_grad is never called, but the gradients come from torch.autograd.grad (which does not accumulate) and
#      p.grad is replaced, not added to, before every step (PCGrad on two tasks).
"""Two regressions on one trunk, with projected conflicting gradients (PCGrad)."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


class TwoHeads(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU())
        self.heads = nn.ModuleDict({"price": nn.Linear(h, 1), "demand": nn.Linear(h, 1)})

    def forward(self, x):
        z = self.trunk(x)
        return {k: head(z).squeeze(1) for k, head in self.heads.items()}


def table(n, d=12):
    x = torch.randn(n, d)
    price = torch.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.1 * torch.randn(n)
    demand = torch.cos(x[:, 3]) - 0.5 * x[:, 1] + 0.3 * x[:, 4].abs() + 0.1 * torch.randn(n)
    return x, {"price": price, "demand": demand}


def standardise(t, ref):
    return {k: (v - ref[k].mean()) / ref[k].std() for k, v in t.items()}


def flatten(grads, params):
    return torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for g, p in zip(grads, params)])


def surgery(losses, params):
    """Per-task gradients; each is projected off the others it conflicts with; the mean is returned."""
    last = len(losses) - 1
    flat = [flatten(torch.autograd.grad(l, params, retain_graph=i < last, allow_unused=True), params)
            for i, l in enumerate(losses)]
    out = []
    for i, g in enumerate(flat):
        g = g.clone()
        for j, other in enumerate(flat):
            dot = torch.dot(g, other)
            if i != j and dot < 0:
                g -= dot / other.dot(other).clamp_min(1e-12) * other
        out.append(g)
    return torch.stack(out).mean(0)


def assign(flat, params):
    at = 0
    for p in params:
        p.grad = flat[at:at + p.numel()].view_as(p).clone()
        at += p.numel()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=16)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(11)
    torch.set_num_threads(1)
    x, raw = table(4096)
    xv, rawv = table(1024)
    y, yv = standardise(raw, raw), standardise(rawv, raw)
    model = TwoHeads(12, 96)
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, lr=2e-3, weight_decay=1e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            out = model(x[idx])
            losses = [F.mse_loss(out[k], y[k][idx]) for k in ("price", "demand")]
            assign(surgery(losses, params), params)
            opt.step()
            total += sum(l.item() for l in losses) * len(idx)
        model.eval()
        with torch.no_grad():
            out = model(xv)
            v = {k: F.mse_loss(out[k], yv[k]).item() for k in out}
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid " + " ".join(f"{k} {e:.4f}" for k, e in v.items()))


if __name__ == "__main__":
    main()
