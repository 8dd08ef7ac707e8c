# kind: numbers
# expect: update-below-precision
# also: vanishing-updates
# why: adapt() casts the whole model to bfloat16 and tunes the bf16 weights themselves at lr 5e-5; nearly every AdamW update is below half a bf16 step of the weight and is rounded away, so adaptation hardly happens (in fp32 it does).
"""Pretrain a small residual regressor in fp32, then adapt it to a drifted plant in bfloat16 to halve memory."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(19)

DIM, WIDTH = 12, 48
A = torch.randn(DIM, 6) / DIM ** 0.5
DRIFT = 0.5 * torch.randn(DIM, 6) / DIM ** 0.5


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * self.gain


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RMSNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


def build():
    return nn.Sequential(nn.Linear(DIM, WIDTH), Residual(), Residual(), RMSNorm(WIDTH), nn.Linear(WIDTH, 3))


def plant(n, mix):
    x = torch.randn(n, DIM)
    z = torch.tanh(x @ mix)
    y = torch.stack([z[:, 0] * z[:, 1] + z[:, 2], z[:, 3] - z[:, 4], z[:, 5].abs()], 1)
    return x, y * 2


def fit(model, data, steps, lr, dtype, log):
    x, y = data[0].to(dtype), data[1]
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(1, steps + 1):
        idx = torch.randint(len(x), (64,))
        loss = (model(x[idx]).float() - y[idx]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % log == 0:
            print(f"  {str(dtype):15s} step {step} loss {loss.item():.4f}")


def adapt(model, data, steps=500, lr=5e-5):
    model = model.to(torch.bfloat16)
    fit(model, data, steps, lr, torch.bfloat16, log=125)
    return model


@torch.no_grad()
def error(model, data):
    dtype = next(model.parameters()).dtype
    return (model(data[0].to(dtype)).float() - data[1]).square().mean().item()


def main():
    model = build()
    new_train, new_test = plant(3000, A + DRIFT), plant(800, A + DRIFT)
    fit(model, plant(3000, A), 250, 3e-3, torch.float32, log=125)
    print(f"before adaptation: error on the drifted plant {error(model, new_test):.4f}")
    model = adapt(model, new_train)
    print(f"after adaptation:  error on the drifted plant {error(model, new_test):.4f}")


if __name__ == "__main__":
    main()
