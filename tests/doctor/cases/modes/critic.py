import torch
from torch import nn
from torch.nn.utils import spectral_norm
from torch.utils.data import DataLoader, TensorDataset


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = spectral_norm(nn.Linear(6, 24))
        self.fc2 = spectral_norm(nn.Linear(24, 1))

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    return sum(nn.functional.mse_loss(model(x), y).item() for x, y in loader) / len(loader)


torch.manual_seed(28)
x = torch.randn(260, 6)
y = x[:, :1].tanh()
train = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
valid = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=30)
model = Critic()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
print("before", evaluate(model, valid))
for epoch in range(4):
    model.train()
    for a, b in train:
        opt.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        opt.step()
    print(epoch, evaluate(model, valid))
