import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.randint(0, 4, (240,))
images = torch.randint(0, 120, (240, 1, 12, 12), dtype=torch.uint8)
for i, label in enumerate(labels.tolist()):
    images[i, 0, label * 3 : label * 3 + 3] = 255
loader = DataLoader(TensorDataset(images.float(), labels), batch_size=24, shuffle=True)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.conv2 = nn.Conv2d(6, 8, 3)
        self.fc = nn.Linear(8 * 4 * 4, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


model = ConvNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for epoch in range(4):
    total, n = 0.0, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
        n += len(y)
    print(epoch, total / n)
