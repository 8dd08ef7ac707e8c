"""Four critic updates an update of the maker; one helper does all backwards, and each team clears after its own step only."""

import torch
from torch import nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))


class Team:
    def __init__(self, net, lr):
        self.net = net
        self.opt = torch.optim.RMSprop(net.parameters(), lr=lr)

    def improve(self, loss):
        loss.backward()
        self.opt.step()
        self.net.zero_grad()


teams = {"maker": Team(maker, 5e-4), "critic": Team(critic, 5e-4)}


def losses():
    while True:
        for _ in range(4):
            real = torch.randn(64, 2) * 0.3 + 1
            with torch.no_grad():
                fake = maker(torch.randn(64, 4))
            yield "critic", critic(fake).mean() - critic(real).mean() + 0.1 * critic(real).pow(2).mean()
        yield "maker", -critic(maker(torch.randn(64, 4))).mean()


source = losses()
for _ in range(200):
    who, loss = next(source)
    teams[who].improve(loss)
