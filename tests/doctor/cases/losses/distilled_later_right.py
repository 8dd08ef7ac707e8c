"""Shapes: a teacher learns smoothed labels, the student what the teacher says."""

import torch
import torch.nn.functional as F
from torch import nn


def divergence(given, wanted):
    return F.kl_div(given, wanted, reduction="batchmean")


def train(model, loss_of, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(600, (50,))
        optimizer.zero_grad()
        loss_of(model(x[rows]), rows).backward()
        optimizer.step()


def smoothed(scores, rows):
    return divergence(scores.log_softmax(1), F.one_hot(y[rows], 4) * 0.9 + 0.025)


def distilled(scores, rows):
    with torch.no_grad():
        wanted = teacher(x[rows]).softmax(1)
    return divergence(scores.log_softmax(1), wanted)


torch.manual_seed(0)
x = torch.randn(600, 10)
y = x[:, :4].argmax(1)
teacher, student = (nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 4)) for width in (64, 16))
train(teacher, smoothed, 90)
train(student, distilled, 40)
