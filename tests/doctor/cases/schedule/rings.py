import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


class Rings(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc1 = nn.Linear(2, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x).squeeze(1)


def train_one_epoch(model, loader, lr):
    optimizer = optim.Adam(model.parameters(), lr=lr)
    criterion = nn.BCEWithLogitsLoss()
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


torch.manual_seed(22)
r = torch.cat([torch.rand(150) * 0.6, 0.8 + torch.rand(150) * 0.5])
a = torch.rand(300) * 6.283
x = torch.stack([r * a.cos(), r * a.sin()], 1)
y = (r > 0.7).float()
loader = DataLoader(TensorDataset(x, y), batch_size=30, shuffle=True)
model = Rings()
for epoch in range(6):
    print(epoch, train_one_epoch(model, loader, 3e-3))
