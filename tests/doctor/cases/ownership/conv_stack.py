import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model(channels=6, depth=3):
    layer = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU())
    layers = [nn.Conv2d(1, channels, 3, padding=1)]
    for _ in range(depth):
        layers.append(layer)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * 64, 2))


torch.manual_seed(3)
y = torch.randint(0, 2, (160,))
x = torch.rand(160, 1, 8, 8)
x[y == 1, :, :4] += 0.5
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = make_model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
