# kind: without a DataLoader
# expect: graph-kept
# why: the history appends the loss tensors themselves (and the report sums them), so the graph of every one of the 700
#      rollouts stays in memory until the script ends.
"""Learning the residual force of a pendulum by differentiating through a short simulated rollout."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

DT = 0.05


def truth(state):
    q, v = state.unbind(-1)
    return torch.stack([v, -4.0 * torch.sin(q) - 0.3 * v * v.abs()], -1)


def simulate(field, state, steps):
    path = [state]
    for _ in range(steps):
        half = path[-1] + 0.5 * DT * field(path[-1])
        path.append(path[-1] + DT * field(half))
    return torch.stack(path, 1)


class Pendulum(nn.Module):
    """Known kinematics, learned acceleration."""

    def __init__(self, h):
        super().__init__()
        self.force = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, state):
        return torch.cat([state[..., 1:], self.force(state)], -1)


def start_states(n, g):
    return torch.randn(n, 2, generator=g).clamp(-2, 2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--horizon", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(111)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1110)
    held = start_states(128, torch.Generator().manual_seed(5))
    with torch.no_grad():
        held_path = simulate(truth, held, 20)
    model = Pendulum(40)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    history = []
    for step in range(1, args.steps + 1):
        model.train()
        s0 = start_states(args.batch, g)
        with torch.no_grad():
            target = simulate(truth, s0, args.horizon)
        loss = F.mse_loss(simulate(model, s0, args.horizon), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss)
        if step % 100 == 0:
            model.eval()
            with torch.no_grad():
                v = F.mse_loss(simulate(model, held, 20), held_path).item()
            print(f"step {step} mean loss {sum(history[-100:]) / 100:.5f} held-out rollout {v:.5f}")
    print(f"first {history[0]:.5f} last {history[-1]:.5f} of {len(history)}")


if __name__ == "__main__":
    main()
