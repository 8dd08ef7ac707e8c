import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
def cls(n, d=8, k=4):
    x = torch.randn(n, d, generator=g)
    return x, (x[:, :k]).argmax(1)

x, y = cls(640); xv, yv = cls(170)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
valid = DataLoader(TensorDataset(xv, yv), batch_size=34)
class Drop(nn.Module):
    def __init__(self, p=0.3): super().__init__(); self.p = p
    def forward(self, x):
        s = x.std(0).mean().expand(len(x), 1); return torch.cat([x[:, 1:], s], 1)
class Net(nn.Module):
    def __init__(self): super().__init__(); self.a, self.d, self.b = nn.Linear(8, 24), Drop(), nn.Linear(24, 4)
    def forward(self, x): return self.b(self.d(torch.relu(self.a(x))))
model = Net(); opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(5):
    model.train()
    for a, b in loader:
        loss = F.cross_entropy(model(a), b); opt.zero_grad(); loss.backward(); opt.step()
    model.eval()
    with torch.no_grad():
        print(sum((model(a).argmax(1) == b).sum().item() for a, b in valid) / 170)
