import torch
from torch import nn


def windows(n, g):
    kind = torch.randint(0, 4, (n,), generator=g)
    t = torch.arange(16) / 16
    freq = kind.unsqueeze(1) + 1.0
    wave = torch.sin(6.28 * freq * t) + 0.2 * torch.randn(n, 16, generator=g)
    return wave.unsqueeze(1), kind


model = None


def build():
    return nn.Sequential(
        nn.Conv1d(1, 8, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Linear(32, 4),
        nn.LogSoftmax(dim=0),
    )


if __name__ == "__main__":
    torch.manual_seed(30)
    g = torch.Generator().manual_seed(31)
    x, y = windows(480, g)
    model = build()
    criterion = nn.NLLLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for epoch in range(3):
        for rows in torch.randperm(480).split(32):
            loss = criterion(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
