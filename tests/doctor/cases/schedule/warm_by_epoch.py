import math
import numpy as np
import torch
from torch import nn

torch.manual_seed(3)
rng = np.random.default_rng(3)
BATCH, EPOCHS, PEAK = 50, 12, 3e-3


def lr_at(epoch, total, warm):
    if epoch < warm:
        return PEAK * (epoch + 1) / warm
    return PEAK * 0.5 * (1 + math.cos(math.pi * (epoch - warm) / (total - warm)))


def batches(x, y):
    order = rng.permutation(len(x))
    for at in range(0, len(x), BATCH):
        part = order[at:at + BATCH]
        yield torch.from_numpy(x[part]), torch.from_numpy(y[part])


x = rng.normal(size=(1500, 9)).astype("float32")
y = (np.sin(x[:, :1] * 2) + 0.4 * x[:, 1:2] ** 2).astype("float32")
net = nn.Sequential(nn.Linear(9, 64), nn.SiLU(), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), lr=PEAK)
for epoch in range(EPOCHS):
    for group in opt.param_groups:
        group["lr"] = lr_at(epoch, EPOCHS, 3)
    run = 0.0
    for bx, by in batches(x, y):
        opt.zero_grad(set_to_none=True)
        loss = (net(bx) - by).pow(2).mean()
        loss.backward()
        opt.step()
        run += loss.item()
    print(epoch, run / (len(x) // BATCH), opt.param_groups[0]["lr"])
