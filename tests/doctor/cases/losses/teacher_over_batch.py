"""Distillation of a larger network."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(15)
x = torch.randn(1800, 16)
y = (x[:, :5] + 0.3 * torch.randn(1800, 5)).argmax(1)
teacher = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 5))
student = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 5))


def fit(net, loss_of, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(epochs):
        for idx in torch.randperm(1500).split(50):
            loss = loss_of(x[idx], y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


fit(teacher, lambda xb, yb: F.cross_entropy(teacher(xb), yb), 3)


def distil(xb, yb, T=2.0):
    with torch.no_grad():
        soft = torch.softmax(teacher(xb) / T, dim=0)
    own = F.log_softmax(student(xb) / T, dim=1)
    return F.kl_div(own, soft, reduction="batchmean") * T * T + F.cross_entropy(student(xb), yb)


fit(student, distil, 4)
