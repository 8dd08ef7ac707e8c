# kind: in a second phase
# expect: frozen-parameter-moves
# why: the autoencoder is frozen after 240 steps with requires_grad_(False), but its zeroed (not None) gradients stay with the same AdamW, so momentum and weight decay keep shrinking the frozen weights in every probe step.
"""Denoising autoencoder on vibration windows, afterwards a fault probe on the frozen code."""
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)
rng = np.random.default_rng(3)

WINDOW, CODE, FAULTS = 64, 12, 5


def machine_windows(n):
    fault = rng.integers(0, FAULTS, n)
    t = np.arange(WINDOW)[None, :]
    base = rng.uniform(0.18, 0.22, (n, 1))
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    sig = np.sin(base * t + phase)
    sig += 0.6 * np.sin((2 + fault[:, None]) * base * t + 2 * phase)
    sig += 0.2 * rng.standard_normal((n, WINDOW))
    return (torch.tensor(sig, dtype=torch.float32), torch.tensor(fault))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(WINDOW, 96), nn.GELU(), nn.Linear(96, CODE))
        self.dec = nn.Sequential(nn.Linear(CODE, 96), nn.GELU(), nn.Linear(96, WINDOW))

    def forward(self, x):
        return self.dec(self.enc(x))


def make_step(optimizer):
    """One update; gradient buffers stay allocated between steps."""
    def step(loss):
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return float(loss.detach())
    return step


def denoising_error(model, x):
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), x).item()


def main():
    x, y = machine_windows(4000)
    x_val, y_val = machine_windows(800)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    step = make_step(optimizer)

    for i in range(1, 241):
        idx = torch.randint(0, len(x), (96,))
        noisy = x[idx] + 0.3 * torch.randn(96, WINDOW)
        value = step(nn.functional.mse_loss(model(noisy), x[idx]))
        if i % 60 == 0:
            print(f"denoise {i:4d}  loss {value:.4f}")
    print(f"reconstruction error on held-out windows {denoising_error(model, x_val):.4f}")

    model.requires_grad_(False)
    probe = nn.Sequential(nn.Linear(CODE, 48), nn.ReLU(), nn.Linear(48, FAULTS))
    optimizer.add_param_group({"params": list(probe.parameters()), "weight_decay": 0.0})
    for i in range(1, 301):
        idx = torch.randint(0, len(x), (96,))
        value = step(nn.functional.cross_entropy(probe(model.enc(x[idx])), y[idx]))
        if i % 100 == 0:
            print(f"probe   {i:4d}  loss {value:.4f}")

    with torch.no_grad():
        hit = (probe(model.enc(x_val)).argmax(1) == y_val).float().mean().item()
    print(f"fault accuracy {hit:.3f}")
    print(f"reconstruction error of the shipped autoencoder {denoising_error(model, x_val):.4f}")


if __name__ == "__main__":
    main()
