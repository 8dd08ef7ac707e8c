import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(25)
x = torch.randn(480, 8)
a, b = (x[:, 0] > 0).long(), x[:, 1:2]
loader = DataLoader(TensorDataset(x, a, b), batch_size=32, shuffle=True)
shared = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
task_a, task_b = nn.Linear(24, 2), nn.Linear(24, 1)
params = [p for m in (shared, task_a, task_b) for p in m.parameters()]
optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9)
for epoch in range(3):
    for xb, ab, bb in loader:
        optimizer.zero_grad()
        h = shared(xb)
        loss_a = F.cross_entropy(task_a(h), ab)
        loss_a.backward(retain_graph=True)
        loss_b = F.mse_loss(task_b(h), bb)
        loss_b.backward()
        optimizer.step()
    print(epoch, loss_a.item(), loss_b.item())
