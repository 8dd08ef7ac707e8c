import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def backbone():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


def main():
    torch.manual_seed(8)
    model = backbone()
    model[1].running_mean.normal_()
    x = torch.randn(200, 8)
    y = x[:, :3].argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    model.eval()
    for epoch in range(4):
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            acc = (model(x).argmax(1) == y).float().mean().item()
        print(epoch, loss.item(), acc)


main()
