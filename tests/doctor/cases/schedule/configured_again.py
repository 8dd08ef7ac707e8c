import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 5)
y = (x[:, 0] > 0).long()


class Fit:
    def __init__(self):
        self.net = nn.Linear(5, 2)
        self.configure()

    def configure(self):
        self.opt = torch.optim.Adam(self.net.parameters(), 1e-2)

    def epoch(self, loader):
        self.configure()
        for a, b in loader:
            l = nn.functional.cross_entropy(self.net(a), b)
            self.opt.zero_grad()
            l.backward()
            self.opt.step()


f = Fit()
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
for e in range(6):
    f.epoch(loader)
