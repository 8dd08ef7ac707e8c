"""A moving average of the weights with the buffers of the model, whose batch norms have a momentum of 0.001, as in FixMatch."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
kinds = 3 * torch.randn(5, 3, 8, 8)


def draw(count):
    y = torch.randint(5, (count,))
    return kinds[y] + torch.randn(count, 3, 8, 8), y


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs, momentum=0.001), nn.ReLU()]


model = nn.Sequential(*block(3, 8), *block(8, 8), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5))
average = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
for epoch in range(4):
    model.train()
    for _ in range(40):
        x, y = draw(16)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.05)
            for old, new in zip(average.buffers(), model.buffers(), strict=True):
                old.copy_(new)
    with torch.no_grad():
        x, y = draw(200)
        print(epoch, loss.item(), (average(x).argmax(1) == y).float().mean().item())
