"""Train under autocast to save memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(192, 6)
    y = 1e-3 * torch.sin(x[:, :1])
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for epoch in range(4):
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad(set_to_none=True)
            with torch.amp.autocast(device_type="cpu", dtype=torch.float16):
                loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(loader))


main()
