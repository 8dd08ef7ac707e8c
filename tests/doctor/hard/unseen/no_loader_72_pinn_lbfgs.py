# kind: without a DataLoader
# expect: nothing
# why: a physics-informed network fitted with LBFGS on the same fixed collocation points in every step; full-batch repetition, double precision, gradients of the output by autograd.grad with create_graph and the closure are how this is done.
"""Damped heat equation u_t = a u_xx - k u solved by a small network, checked against the series."""
import math

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(9)
torch.set_default_dtype(torch.float64)

ALPHA, KAPPA = 0.1, 0.5


class Field(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, 1))

    def forward(self, x, t):
        return self.net(torch.cat([2 * x - 1, 2 * t - 1], dim=1))


def exact(x, t):
    return torch.sin(math.pi * x) * torch.exp(-(ALPHA * math.pi ** 2 + KAPPA) * t)


def grad(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(field, x, t):
    u = field(x, t)
    u_x, u_t = grad(u, x), grad(u, t)
    return u_t - ALPHA * grad(u_x, x) + KAPPA * u


def points(n):
    sobol = torch.quasirandom.SobolEngine(2, scramble=True, seed=3)
    xt = sobol.draw(n).to(torch.get_default_dtype())
    return xt[:, :1].requires_grad_(), xt[:, 1:].requires_grad_()


def main():
    field = Field()
    x_in, t_in = points(128)
    x0 = torch.linspace(0, 1, 40).unsqueeze(1)
    t0 = torch.zeros_like(x0)
    tb = torch.linspace(0, 1, 40).unsqueeze(1)
    left, right = torch.zeros_like(tb), torch.ones_like(tb)

    opt = torch.optim.LBFGS(field.parameters(), lr=0.8, max_iter=2, history_size=20)
    parts = {}

    def closure():
        opt.zero_grad()
        physics = residual(field, x_in, t_in).square().mean()
        initial = (field(x0, t0) - exact(x0, t0)).square().mean()
        edges = field(left, tb).square().mean() + field(right, tb).square().mean()
        loss = physics + 10 * initial + 10 * edges
        loss.backward()
        parts.update(physics=physics.item(), initial=initial.item(), edges=edges.item())
        return loss

    gx, gt = torch.meshgrid(torch.linspace(0, 1, 31), torch.linspace(0, 1, 31), indexing="ij")
    gx, gt = gx.reshape(-1, 1), gt.reshape(-1, 1)
    for step in range(1, 151):
        opt.step(closure)
        if step % 30 == 0:
            with torch.no_grad():
                err = (field(gx, gt) - exact(gx, gt)).abs().max().item()
            print(f"step {step:4d}  " + "  ".join(f"{k} {v:.2e}" for k, v in parts.items())
                  + f"  max error {err:.4f}")


if __name__ == "__main__":
    main()
