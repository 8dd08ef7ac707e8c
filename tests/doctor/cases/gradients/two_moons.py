import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)

# data
n = 240
theta = torch.rand(n) * 3.1416
label = torch.arange(n) % 2
x = torch.stack([torch.cos(theta), torch.sin(theta)], 1)
x[label == 1] = torch.tensor([1.0, 0.5]) - x[label == 1]
x = x + 0.1 * torch.randn_like(x)
train_loader = DataLoader(TensorDataset(x[:200], label[:200]), batch_size=20, shuffle=True)
test_x, test_y = x[200:], label[200:]

# model
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
loss_fn = nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.01)

# training
for epoch in range(5):
    net.train()
    total = 0.0
    for xb, yb in train_loader:
        out = net(xb)
        loss = loss_fn(out, yb)
        loss.backward()
        opt.step()
        total += loss.item() * len(xb)
    net.eval()
    with torch.no_grad():
        acc = (net(test_x).argmax(1) == test_y).float().mean().item()
    print(f"{epoch}: {total / 200:.4f} acc {acc:.3f}")
