import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def quantile_loss(pred, target, quantiles):
    error = target - pred
    return torch.maximum(quantiles * error, (quantiles - 1) * error).mean()


def main():
    torch.manual_seed(6)
    x = torch.randn(600, 5)
    y = x[:, :1] * 2 + torch.randn(600, 1) * 0.3
    loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    point = nn.Linear(5, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *point.parameters()], lr=1e-2)
    mse = nn.MSELoss()
    for epoch in range(3):
        for xb, yb in loader:
            loss = quantile_loss(model(xb), yb, quantiles) + mse(point(xb).squeeze(1), yb.squeeze(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
