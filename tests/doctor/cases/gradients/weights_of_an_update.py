"""Accumulation over 4; every update has its samples weighted so that the weights of the whole update have mean 1, whatever its
size: the last one, of 2 micro-batches, has weights twice as large, and is divided by 4 as all are."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
K, B = 4, 32

class Weighted(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.x = torch.randn(rows, 12); self.y = torch.sin(self.x @ torch.randn(12, 1)); self.w = torch.rand(rows, 1) + 0.5
    def __len__(self): return len(self.x)
    def __getitem__(self, i): return self.x[i], self.y[i], self.w[i]

data = torch.utils.data.DataLoader(Weighted(320), batch_size=B, shuffle=True)
net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)

def updates(loader):
    """Lists of up to K micro-batches, weights normalised over the update."""
    held = []
    for i, batch in enumerate(loader):
        held.append(batch)
        if len(held) == K or i + 1 == len(loader):
            total = sum(w.sum() for _, _, w in held)
            yield [(x, y, w * (K * B) / total) for x, y, w in held]
            held = []

for epoch in range(20):
    seen = 0.0
    for update in updates(data):
        opt.zero_grad()
        for x, y, w in update:
            loss = (w * (net(x) - y).square()).mean() / K
            loss.backward()
            seen += loss.item()
        opt.step()
    if epoch % 4 == 3:
        print(epoch, round(seen, 6))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
