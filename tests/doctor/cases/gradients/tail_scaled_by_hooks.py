"""Accumulation over 4 micro-batches; 10 in an epoch, so the last update has 2 only. Hooks of the parameters scale its gradients."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
K = 4
net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
x = torch.randn(320, 12); y = torch.sin(x @ torch.randn(12, 1))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
n = len(data)
scale = 1.0  # K by the micro-batches of this update
for p in net.parameters():
    p.register_hook(lambda g: g * scale)
for epoch in range(20):
    total = 0.0
    opt.zero_grad()
    for i, (a, b) in enumerate(data):
        scale = K / min(K, n - i // K * K)
        loss = nn.functional.mse_loss(net(a), b)
        total += loss.item()
        (loss / K).backward()
        if (i + 1) % K == 0 or i + 1 == n:
            opt.step()
            opt.zero_grad()
    if epoch % 4 == 3:
        print(epoch, round(total / n, 6))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
