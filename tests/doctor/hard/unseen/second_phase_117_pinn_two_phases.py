# kind: second_phase
# expect: nothing
# why: Might be accused of same-batch-every-step, optimizer-recreated or evaluated-with-grad: L-BFGS needs a fixed set of collocation points, a new optimizer for the second phase is wanted, and the held-out residual needs derivatives by the inputs.
"""Physics-informed net for the heat equation u_t = k u_xx: Adam on fresh points, then L-BFGS on a fixed set."""
import math

import torch
from torch import nn

KAPPA, ADAM_STEPS, LBFGS_CALLS = 0.1, 500, 8
WEIGHTS = {"pde": 1.0, "initial": 10.0, "boundary": 10.0}


class HeatNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        for layer in self.layers[::2]:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x, t):
        return self.layers(torch.cat([2 * x - 1, 2 * t - 1], dim=1))


def exact(x, t):
    return torch.sin(math.pi * x) * torch.exp(-KAPPA * math.pi**2 * t) + 0.5 * torch.sin(3 * math.pi * x) * torch.exp(
        -KAPPA * 9 * math.pi**2 * t
    )


def derivative(y, x, create_graph):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=create_graph, retain_graph=True)[0]


def residual(net, x, t, create_graph=True):
    x, t = x.clone().requires_grad_(True), t.clone().requires_grad_(True)
    u = net(x, t)
    u_t = derivative(u, t, create_graph)
    u_x = derivative(u, x, True)
    return u_t - KAPPA * derivative(u_x, x, create_graph)


def draw(n_inside, n_edge, gen):
    inside = torch.rand(n_inside, 2, generator=gen)
    x0 = torch.rand(n_edge, 1, generator=gen)
    tb = torch.rand(n_edge, 1, generator=gen)
    side = (torch.rand(n_edge, 1, generator=gen) < 0.5).float()
    return {"inside": inside, "x0": x0, "tb": tb, "side": side}


def loss_parts(net, pts):
    x0, tb, side = pts["x0"], pts["tb"], pts["side"]
    return {
        "pde": residual(net, pts["inside"][:, :1], pts["inside"][:, 1:]).pow(2).mean(),
        "initial": (net(x0, torch.zeros_like(x0)) - exact(x0, torch.zeros_like(x0))).pow(2).mean(),
        "boundary": net(side, tb).pow(2).mean(),
    }


def total(parts):
    return sum(WEIGHTS[k] * v for k, v in parts.items())


def report(net, label):
    net.eval()
    gen = torch.Generator().manual_seed(1000)
    pts = torch.rand(1500, 2, generator=gen)
    x, t = pts[:, :1], pts[:, 1:]
    with torch.no_grad():
        truth = exact(x, t)
        error = ((net(x, t) - truth).norm() / truth.norm()).item()
    held_out = residual(net, x, t, create_graph=False).detach().pow(2).mean().sqrt().item()
    net.train()
    print(f"{label:>10}: relative error {error:.4f}  rms residual {held_out:.4f}")


def adam_phase(net, gen):
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=ADAM_STEPS, eta_min=1e-4)
    for step in range(ADAM_STEPS):
        parts = loss_parts(net, draw(256, 64, gen))
        optimizer.zero_grad()
        total(parts).backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            report(net, f"adam {step + 1}")


def lbfgs_phase(net, gen):
    points = draw(600, 150, gen)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=1.0, max_iter=20, history_size=20, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = total(loss_parts(net, points))
        loss.backward()
        return loss

    for call in range(LBFGS_CALLS):
        before = optimizer.step(closure)
        if call % 2 == 1:
            print(f"lbfgs call {call + 1}: loss {before.item():.2e}")
    report(net, "lbfgs")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(6)
    gen = torch.Generator().manual_seed(60)
    net = HeatNet()
    adam_phase(net, gen)
    lbfgs_phase(net, gen)


if __name__ == "__main__":
    main()
