import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
        self.body.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))


torch.manual_seed(21)
x = torch.randn(220, 5)
y = (x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x[:180], y[:180]), batch_size=18, shuffle=True)
net = Net()
opt = torch.optim.Adam(net.head.parameters(), lr=5e-3)
for epoch in range(4):
    net.train()
    for a, b in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(a), b).backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, (net(x[180:]).argmax(1) == y[180:]).float().mean().item())
