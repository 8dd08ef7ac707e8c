import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + F.gelu(self.fc(self.norm(x)))


class Stack(nn.Module):
    def __init__(self, dim=16, depth=6):
        super().__init__()
        self.inp = nn.Linear(4, dim)
        self.blocks = nn.ModuleList([Block(dim)] * depth)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = block(h)
        return self.out(h).squeeze(1)


torch.manual_seed(0)
x = torch.randn(200, 4)
y = torch.sin(x).sum(1)
model = Stack()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(4):
    for part in torch.randperm(200).split(20):
        opt.zero_grad()
        loss = F.mse_loss(model(x[part]), y[part])
        loss.backward()
        opt.step()
    print(epoch, loss.item())
