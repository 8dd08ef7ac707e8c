import torch
import torch.nn as nn
import torch.nn.functional as F


class Gate(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        self.scale = torch.ones(dim, requires_grad=True)

    def forward(self, x):
        return torch.tanh(self.lin(x)) * self.scale


def train(model, x, y, steps=40):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        pick = torch.randint(0, len(x), (32,))
        loss = F.mse_loss(model(x[pick]).squeeze(-1), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item())


torch.manual_seed(2)
x = torch.randn(256, 6)
y = x[:, 0] * 2 + x[:, 1].abs()
train(nn.Sequential(Gate(6), Gate(6), nn.Linear(6, 1)), x, y)
