import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class GatedNet(nn.Module):
    def __init__(self, d=10, h=20):
        super().__init__()
        self.value = nn.Linear(d, h)
        self.gate = nn.Linear(d, h)
        self.out = nn.Linear(h, 1)

    def forward(self, x):
        h = torch.tanh(self.value(x)) * torch.sigmoid(self.gate(x))
        return self.out(h).squeeze(-1)


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.inference_mode():
        for x, y in loader:
            prob = torch.sigmoid(model(x))
            right += ((prob > 0.5) == (y > 0.5)).sum().item()
            total += len(y)
    return right / total


torch.manual_seed(8)
x = torch.randn(700, 10)
y = (x[:, 0] * x[:, 1] > 0).float()
train_loader = DataLoader(TensorDataset(x[:600], y[:600]), batch_size=40, shuffle=True)
test_loader = DataLoader(TensorDataset(x[600:], y[600:]), batch_size=50)
model = GatedNet()
loss_fn = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    model.train()
    for xb, yb in train_loader:
        opt.zero_grad()
        loss_fn(model(xb), yb).backward()
        opt.step()
    print(epoch, evaluate(model, test_loader))
