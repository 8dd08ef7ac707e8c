"""A critic that learns twice for each step of the actor; both schedules count epochs, and `main()` is over before the end."""

import torch
from torch import nn
from torch.nn import functional as F


def main() -> None:
    torch.manual_seed(1)
    x = torch.randn(160, 5)
    y = x.sum(1, keepdim=True)
    actor, critic = nn.Linear(5, 1), nn.Linear(6, 1)
    slow, fast = torch.optim.SGD(actor.parameters(), lr=0.05), torch.optim.SGD(critic.parameters(), lr=0.05)
    rates = [torch.optim.lr_scheduler.CosineAnnealingLR(each, T_max=24) for each in (slow, fast)]
    for _ in range(24):
        for rows in torch.randperm(160).split(16):
            for _ in range(2):
                fast.zero_grad()
                guess = actor(x[rows]).detach()
                F.mse_loss(critic(torch.cat([x[rows], guess], 1)), (guess - y[rows]).square()).backward()
                fast.step()
            slow.zero_grad()
            F.mse_loss(actor(x[rows]), y[rows]).backward()
            slow.step()
        for rate in rates:
            rate.step()


main()
