import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Bayes(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 1))

    def forward(self, x):
        return self.net(x)


def mc_predict(model, x, samples=20):
    model.train()
    with torch.no_grad():
        draws = torch.stack([model(x) for _ in range(samples)])
    return draws.mean(0), draws.std(0)


torch.manual_seed(2)
x = torch.linspace(-1, 1, 200).unsqueeze(1)
y = x**3 + 0.05 * torch.randn_like(x)
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
model = Bayes()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(xb), yb).backward()
        optimizer.step()
    mean, std = mc_predict(model, x)
    print(epoch, (mean - y).abs().mean().item(), std.mean().item())
