"""Seeds come from the environment or the clock and are written down."""

import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=None)
args = parser.parse_args()
seed = args.seed if args.seed is not None else int(time.time())
torch.random.manual_seed(seed)
print("seed", seed)
x = torch.randn(160, 5)
y = x.sum(1, keepdim=True)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    for part in torch.randperm(160).split(16):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
