"""Intent classes; the model keeps a temperature that depends on its mode."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(13)
x = torch.randn(2400, 30)
y = (x[:, :5] + 0.5 * torch.randn(2400, 5)).argmax(1)


class Intent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3))
        self.out = nn.Linear(64, 5)
        self.temperature = 1.0

    def train(self, mode=True):
        self.training = mode
        self.temperature = 1.0 if mode else 0.8
        return self

    def forward(self, x):
        return self.out(self.net(x)) / self.temperature


model = Intent()
train = DataLoader(TensorDataset(x[:2000], y[:2000]), 50, shuffle=True)
valid = DataLoader(TensorDataset(x[2000:], y[2000:]), 100)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(5):
    model.train()
    for xb, yb in train:
        loss = F.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        hits = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in valid)
    print(epoch, hits / 400)
