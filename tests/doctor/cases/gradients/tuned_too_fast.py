import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)


def loader(n):
    x = torch.randn(n, 8)
    return DataLoader(TensorDataset(x, x[:, 0] * 2 + x[:, 1].abs()), batch_size=40, shuffle=True)


def train(net, data, lr, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    for epoch in range(epochs):
        for x, y in data:
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


net = Net()
train(net, loader(1600), 2e-3, 8)
state = copy.deepcopy(net.state_dict())
tuned = Net()
tuned.load_state_dict(state)
train(tuned, loader(800), 0.7, 8)
