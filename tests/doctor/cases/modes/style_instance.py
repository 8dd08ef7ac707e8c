import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(34)
images = torch.rand(40, 3, 8, 8)
targets = images.flip(1)
loader = DataLoader(TensorDataset(images, targets), batch_size=1, shuffle=True)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(2):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total / len(loader))
