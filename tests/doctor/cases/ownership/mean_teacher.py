import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def update_teacher(teacher, student, decay):
    for t, s in zip(teacher.parameters(), student.parameters(), strict=False):
        t.mul_(decay).add_(s, alpha=1 - decay)


torch.manual_seed(0)
student = Student()
teacher = copy.copy(student)
optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
x = torch.randn(240, 6)
y = x[:, :3].argmax(1)
for epoch in range(4):
    for part in torch.randperm(240).split(24):
        xb = x[part]
        with torch.no_grad():
            soft = teacher(xb + 0.05 * torch.randn_like(xb)).softmax(1)
        out = student(xb + 0.05 * torch.randn_like(xb))
        loss = F.cross_entropy(out, y[part]) + 0.5 * F.mse_loss(out.softmax(1), soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_teacher(teacher, student, 0.99)
    print(epoch, loss.item())
