import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def smooth(y, eps=0.1):
    return y * (1 - eps) + 0.5 * eps


def main():
    torch.manual_seed(5)
    x = torch.randn(480, 8)
    y = (x[:, 0] > 0.2).float()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        for xb, yb in loader:
            loss = criterion(model(xb).squeeze(1), smooth(yb))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
