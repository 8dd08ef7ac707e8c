import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loaders():
    x = torch.randn(260, 6)
    y = (x[:, 0] + x[:, 1] ** 2 > 0.7).long()
    train = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
    return train, DataLoader(TensorDataset(x[200:], y[200:]), batch_size=60)


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def fit_one_cycle(epochs, lr, model, train, valid):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, epochs=epochs, steps_per_epoch=len(train))
    for epoch in range(epochs):
        model.train()
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sched.step()
        print(epoch, validate(model, valid))


torch.manual_seed(12)
fit_one_cycle(4, 0.05, nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2)), *loaders())
