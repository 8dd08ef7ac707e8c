import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(1, 32)
        self.drop = nn.Dropout(0.2)
        self.b = nn.Linear(32, 1)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.a(x))))


def predict(model, x, samples=20):
    model.eval()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()
    with torch.no_grad():
        draws = torch.stack([model(x) for _ in range(samples)])
    return draws.mean(0), draws.std(0)


torch.manual_seed(12)
x = torch.rand(480, 1) * 4 - 2
y = x**2 + 0.1 * torch.randn_like(x)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = Regressor()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
grid = torch.linspace(-3, 3, 30).unsqueeze(1)
for epoch in range(3):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        F.mse_loss(model(xb), yb).backward()
        optimizer.step()
    mean, std = predict(model, grid)
    print(epoch, mean.mean().item(), std.mean().item())
