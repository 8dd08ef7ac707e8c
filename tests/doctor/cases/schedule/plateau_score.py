import torch
from torch import nn, optim


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(17)
    means = torch.randn(5, 10)
    y = torch.randint(0, 5, (500,))
    x = means[y] + torch.randn(500, 10)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 5))
    opt = optim.SGD(model.parameters(), lr=0.1)
    sched = optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", factor=0.3, patience=2)
    for epoch in range(12):
        model.train()
        for rows in torch.randperm(400).split(40):
            opt.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            opt.step()
        acc = accuracy(model, x[400:], y[400:])
        sched.step(acc)
        print(epoch, acc, opt.param_groups[0]["lr"])


main()
