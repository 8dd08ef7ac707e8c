import copy

import torch
from torch import nn
from torch.nn import functional as F


def update_ema(student, teacher, decay):
    for s, t in zip(student.parameters(), teacher.parameters(), strict=True):
        t.data.mul_(decay).add_(s.data, alpha=1 - decay)


torch.manual_seed(23)
student = nn.Sequential(nn.Linear(4, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 2))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
x = torch.randn(300, 4)
y = (x[:, 0] > 0).long()
opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    student.train()
    teacher.train()
    for rows in torch.randperm(240).split(24):
        xb, yb = x[rows], y[rows]
        with torch.no_grad():
            target = teacher(xb + 0.1 * torch.randn_like(xb)).softmax(1)
        out = student(xb + 0.1 * torch.randn_like(xb))
        loss = F.cross_entropy(out[:8], yb[:8]) + F.mse_loss(out.softmax(1), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_ema(student, teacher, 0.95)
    student.eval()
    with torch.no_grad():
        print(epoch, (student(x[240:]).argmax(1) == y[240:]).float().mean().item())
