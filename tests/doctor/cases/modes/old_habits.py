"""Never eval(), never no_grad(): the test loop of older scripts, which reads its predictions from `.data`."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images = torch.rand(480, 1, 8, 8)
labels = torch.randint(0, 4, (480,))
for image, label in zip(images, labels, strict=True):
    row, column = divmod(int(label), 2)
    image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 0.7
train_loader = DataLoader(TensorDataset(images[:384], labels[:384]), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(images[384:], labels[384:]), batch_size=32)

net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 4)
)
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(4):
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(inputs), targets)
        loss.backward()
        optimizer.step()
    right = 0
    for inputs, targets in test_loader:
        outputs = net(inputs)
        _, predicted = torch.max(outputs.cpu().data, 1)
        right += (predicted == targets).sum().item()
    print(epoch, right / 96)
