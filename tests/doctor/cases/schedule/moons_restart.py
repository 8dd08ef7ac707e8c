import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 5
BATCH = 20

torch.manual_seed(7)
t = torch.rand(400) * torch.pi
y = torch.arange(400) % 2
x = torch.stack([t.cos() + y * 1.0, t.sin() * (1 - 2 * y) + 0.5 * y], 1) + 0.1 * torch.randn(400, 2)
loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)

net = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)
ce = nn.CrossEntropyLoss()

for epoch in range(EPOCHS):
    running = 0.0
    for xb, yb in loader:
        opt.zero_grad()
        loss = ce(net(xb), yb)
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item()
    print(f"epoch {epoch}: {running / len(loader):.3f}")
