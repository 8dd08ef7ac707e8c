# kind: without a DataLoader
# expect: nothing
# like: evaluated-with-grad
# why: the validation records a graph because it needs it: the predicted force is minus the gradient of the predicted energy
#      with respect to the positions, so no_grad would be wrong there; the weights get no gradient from it.
"""Energy/force matching for a three-particle molecule whose configurations come from a simulator."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

PAIRS = torch.tensor([[0, 1], [0, 2], [1, 2]])


def morse(pos):
    d = (pos[:, PAIRS[:, 0]] - pos[:, PAIRS[:, 1]]).norm(dim=-1)
    return ((1 - torch.exp(-1.2 * (d - 1.1))) ** 2).sum(1)


def simulate(n, g):
    base = torch.tensor([[0.0, 0.0, 0.0], [1.1, 0.0, 0.0], [0.55, 0.95, 0.0]])
    pos = (base + 0.18 * torch.randn(n, 3, 3, generator=g)).requires_grad_()
    energy = morse(pos)
    force = -torch.autograd.grad(energy.sum(), pos)[0]
    return pos.detach(), energy.detach(), force


class Potential(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.pair = nn.Sequential(nn.Linear(1, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 1))

    def forward(self, pos):
        d = (pos[:, PAIRS[:, 0]] - pos[:, PAIRS[:, 1]]).norm(dim=-1, keepdim=True)
        return self.pair((d - 1.1) / 0.25).sum((1, 2))


def predict(model, pos, training):
    pos = pos.clone().requires_grad_()
    energy = model(pos)
    force = -torch.autograd.grad(energy.sum(), pos, create_graph=training)[0]
    return energy, force


def validate(model, pos, energy, force):
    model.eval()
    e, f = predict(model, pos, training=False)
    return F.l1_loss(e.detach(), energy).item(), F.l1_loss(f, force).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--force-weight", type=float, default=1.0)
    args = ap.parse_args()
    torch.manual_seed(116)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1160)
    held = simulate(512, torch.Generator().manual_seed(6))
    model = Potential(48)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    run = 0.0
    for step in range(1, args.steps + 1):
        pos, energy, force = simulate(args.batch, g)
        model.train()
        e, f = predict(model, pos, training=True)
        loss = F.mse_loss(e, energy) + args.force_weight * F.mse_loss(f, force)
        opt.zero_grad()
        loss.backward()
        opt.step()
        run += loss.item()
        if step % 70 == 0:
            mae_e, mae_f = validate(model, *held)
            print(f"step {step} loss {run / 70:.4f} held-out energy mae {mae_e:.4f} force mae {mae_f:.4f}")
            run = 0.0


if __name__ == "__main__":
    main()
