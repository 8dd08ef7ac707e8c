# kind: indirection
# expect: nothing
# why: Might be accused of loss-summed, leaf-written-in-place, parameter-not-optimized or dead-parameter: the members' mean losses are added because they share nothing, the optimizer is hand-written, and the template module on the meta device is never meant to train.
"""Eight probabilistic nets trained at once with vmap, a hand-written AdamW with adaptive clipping, warmup and cosine."""
import math

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap


class Gaussian(nn.Module):
    def __init__(self, inputs=4, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.mean, self.log_var = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h).squeeze(-1), self.log_var(h).squeeze(-1).clamp(-8, 4)


class ClippedAdamW(torch.optim.Optimizer):
    """AdamW over stacked parameters; each member's gradient is clipped relative to the norm of its own weights."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0, clip=0.1):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, clip=clip))

    @staticmethod
    def clipped(p, g, ratio):
        dims = tuple(range(1, p.ndim))
        size, slope = p.norm(dim=dims, keepdim=True).clamp_min(1e-2), g.norm(dim=dims, keepdim=True)
        return g * (ratio * size / slope.clamp_min(1e-12)).clamp_max(1.0)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                g = self.clipped(p, p.grad, group["clip"])
                state["t"] += 1
                state["m"].lerp_(g, 1 - b1)
                state["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                m, v = state["m"] / (1 - b1 ** state["t"]), state["v"] / (1 - b2 ** state["t"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))
        return loss


class Ensemble:
    def __init__(self, members):
        self.size = members
        nets = [Gaussian() for _ in range(members)]
        self.params, self.buffers = stack_module_state(nets)
        self.template = Gaussian().to("meta")

    def __call__(self, x, shared):
        def one(params, buffers, x):
            return functional_call(self.template, (params, buffers), (x,))

        return vmap(one, in_dims=(0, 0, None if shared else 0))(self.params, self.buffers, x)


def nll(mean, log_var, y):
    return 0.5 * (log_var + (y - mean).pow(2) / log_var.exp() + math.log(2 * math.pi))


def simulate(n, gen):
    x = torch.rand(n, 4, generator=gen) * torch.tensor([10.0, 100.0, 1.0, 5.0])
    noise = (0.1 + 0.5 * x[:, 2]) * torch.randn(n, generator=gen)
    return x, torch.sin(0.6 * x[:, 0]) * x[:, 3] / 2 + 0.02 * x[:, 1] + noise


@torch.no_grad()
def evaluate(ensemble, x, y):
    """Likelihood of the equal mixture of the members, and of an average single member."""
    mean, log_var = ensemble(x, shared=True)
    single = nll(mean, log_var, y.unsqueeze(0))
    mixture = -(torch.logsumexp(-single, dim=0) - math.log(ensemble.size))
    return mixture.mean().item(), single.mean().item()


def rate(step, total, peak, warmup):
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(27)
    gen = torch.Generator().manual_seed(270)
    (x, y), (xv, yv) = simulate(2000, gen), simulate(500, gen)
    mean, std = x.mean(0), x.std(0)
    x, xv = (x - mean) / std, (xv - mean) / std
    y_mean, y_std = y.mean(), y.std()
    y, yv = (y - y_mean) / y_std, (yv - y_mean) / y_std

    members, batch, epochs, peak = 8, 64, 20, 6e-3
    ensemble = Ensemble(members)
    weights = [p for name, p in ensemble.params.items() if name.endswith("weight")]
    biases = [p for name, p in ensemble.params.items() if name.endswith("bias")]
    optimizer = ClippedAdamW([{"params": weights, "weight_decay": 1e-2}, {"params": biases}], lr=peak)
    per_epoch = len(x) // batch
    total, step = epochs * per_epoch, 0
    for epoch in range(1, epochs + 1):
        orders = torch.stack([torch.randperm(len(x)) for _ in range(members)])
        running = torch.zeros(members)
        for b in range(per_epoch):
            pick = orders[:, b * batch : (b + 1) * batch]
            means, log_vars = ensemble(x[pick], shared=False)
            losses = nll(means, log_vars, y[pick]).mean(dim=1)
            for group in optimizer.param_groups:
                group["lr"] = rate(step, total, peak, warmup=50)
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
            step += 1
            running += losses.detach() / per_epoch
        if epoch % 5 == 0:
            mixture, single = evaluate(ensemble, xv, yv)
            print(f"epoch {epoch}  train {running.mean():.4f} (+-{running.std():.4f})  valid single {single:.4f}  mixture {mixture:.4f}")


if __name__ == "__main__":
    main()
