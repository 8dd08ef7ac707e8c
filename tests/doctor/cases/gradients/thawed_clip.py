"""Blobs: the head is trained first, with clipping; when the encoder is thawed, the norm is clipped where it is logged, too late."""

import torch
import torch.nn.functional as F
from torch import nn


def train(parameters, steps, log=None):
    for _ in range(steps):
        rows = torch.randint(512, (32,))
        loss = F.cross_entropy(head(encoder(x[rows])), y[rows])
        optimizer.zero_grad()
        loss.backward()
        if log is None:
            clip(parameters)
        optimizer.step()
        if log is not None:
            log.append(clip(parameters))


def clip(parameters):
    return float(nn.utils.clip_grad_norm_(parameters, 0.5))


torch.manual_seed(0)
x = torch.randn(512, 12)
y = (x[:, :3].sum(1) > 0).long()
encoder, head = nn.Sequential(nn.Linear(12, 32), nn.ReLU()), nn.Linear(32, 2)
encoder.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
train(list(head.parameters()), 80)
encoder.requires_grad_(True)
optimizer.add_param_group({"params": list(encoder.parameters())})
train([*head.parameters(), *encoder.parameters()], 40, log=[])
