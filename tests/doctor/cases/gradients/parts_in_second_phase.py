# longer sequences are trained in four parts for each step, and their mean losses are added up as they are
import torch
from torch import nn

torch.manual_seed(1)
net = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
loss_fn = nn.CrossEntropyLoss()
for length, size, parts in ((16, 64, 1), (64, 16, 4)):
    shapes = torch.randn(3, length)
    optimizer.zero_grad()
    for number in range(1, 40 * parts + 1):
        y = torch.randint(0, 3, (size,))
        x = (shapes[y] + 0.5 * torch.randn(size, length)).unsqueeze(1)
        loss = loss_fn(net(x), y)
        loss.backward()
        if number % parts == 0:
            optimizer.step()
            optimizer.zero_grad()
