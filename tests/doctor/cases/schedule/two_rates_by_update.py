"""Two networks, each with a schedule of its own, planned in updates. All in `main()`."""

import torch
from torch import nn
from torch.nn import functional as F


def main() -> None:
    torch.manual_seed(4)
    x = torch.randn(200, 6)
    y = x[:, :1] * 2 - x[:, 1:2]
    mean, spread = nn.Linear(6, 1), nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    first, second = torch.optim.Adam(mean.parameters(), lr=0.02), torch.optim.Adam(spread.parameters(), lr=0.01)
    rates = [
        torch.optim.lr_scheduler.CosineAnnealingLR(first, T_max=16 * 20),
        torch.optim.lr_scheduler.CosineAnnealingLR(second, T_max=16 * 20),
    ]
    for _ in range(16):
        for rows in torch.randperm(200).split(10):
            first.zero_grad()
            guess = mean(x[rows])
            F.mse_loss(guess, y[rows]).backward()
            first.step()
            second.zero_grad()
            F.mse_loss(spread(x[rows]), (guess.detach() - y[rows]).abs()).backward()
            second.step()
            for rate in rates:
                rate.step()
        print(float(F.mse_loss(mean(x), y).detach()))


main()
