"""Gradients of a wide network, cleared by hand after each step through `.data`, which no version counter sees."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(900, 200), nn.Linear(200, 900)
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
frames = torch.rand(256, 900)

for epoch in range(8):
    for batch in frames[torch.randperm(256)].split(32):
        rebuilt = torch.sigmoid(decoder(torch.relu(encoder(batch))))
        loss = nn.functional.mse_loss(rebuilt, batch)
        loss.backward()
        opt.step()
        for group in opt.param_groups:
            for p in group["params"]:
                p.grad.data.zero_()
