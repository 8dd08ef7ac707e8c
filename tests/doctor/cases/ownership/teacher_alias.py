import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
teacher = student
opt = torch.optim.Adam(student.parameters(), 1e-2)
for i in range(40):
    x = torch.randn(16, 6)
    y = torch.randint(3, (16,))
    target = teacher(x).detach().softmax(1)
    out = student(x)
    loss = nn.functional.cross_entropy(out, y) + nn.functional.kl_div(out.log_softmax(1), target, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
