import torch
from torch import nn


class WeightAverage:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = {k: v.clone() for k, v in model.state_dict().items()}

    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].mul_(self.decay).add_(v, alpha=1 - self.decay)


def score(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(1)
    x = torch.randn(260, 7)
    y = (x[:, 0] > x[:, 1]).long()
    model = nn.Sequential(nn.Linear(7, 24), nn.Tanh(), nn.Linear(24, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    average = WeightAverage(model)
    for epoch in range(5):
        model.train()
        for rows in torch.randperm(200).split(20):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            average.update(model)
        backup = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
        model.load_state_dict(average.shadow)
        print(epoch, score(model, x[200:], y[200:]))
        model.load_state_dict(backup)


main()
