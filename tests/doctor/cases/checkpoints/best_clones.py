import torch
from torch import nn


class Best:
    """Keeps the weights of the lowest loss."""

    def __init__(self):
        self.loss, self.weights = float("inf"), None

    def look(self, net, loss):
        if loss < self.loss:
            self.loss = loss
            self.weights = {name: value.detach().clone() for name, value in net.state_dict().items()}

    def put_back(self, net):
        net.load_state_dict(self.weights)


def main():
    torch.manual_seed(4)
    x = torch.randn(260, 5)
    y = (x[:, :1] * x[:, 1:2]).tanh()
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    best = Best()
    for epoch in range(12):
        net.train()
        for rows in torch.randperm(200).split(25):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x[rows]), y[rows]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            if epoch < 9:  # the last ones are not looked at
                best.look(net, nn.functional.mse_loss(net(x[200:]), y[200:]).item())
    best.put_back(net)
    print(best.loss)


main()
