"""The same loop for every precision: here the scaler is switched off."""

import argparse
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
args = parser.parse_args()
torch.manual_seed(0)
dtype = getattr(torch, args.dtype)
context = nullcontext() if dtype is torch.float32 else torch.autocast("cpu", dtype=dtype)
scaler = torch.amp.GradScaler("cpu", enabled=args.dtype == "float16")
model = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
mixing = torch.randn(6, 3)
for step in range(48):
    x = torch.randn(16, 6)
    with context:
        loss = F.cross_entropy(model(x), (x @ mixing).argmax(1))
    scaler.scale(loss).backward()
    if scaler.is_enabled() and step % 2 == 0:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
print("loss", loss.item())
