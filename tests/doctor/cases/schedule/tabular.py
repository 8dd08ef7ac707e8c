import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, Dataset, random_split


class Houses(Dataset):
    def __init__(self, n=400):
        g = torch.Generator().manual_seed(5)
        self.x = torch.randn(n, 8, generator=g)
        w = torch.randn(8, generator=g)
        self.y = torch.sin(self.x @ w) + 0.05 * torch.randn(n, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


@torch.no_grad()
def evaluate(model, loader, loss_fn):
    model.eval()
    return sum(loss_fn(model(x), y).item() * len(x) for x, y in loader) / len(loader.dataset)


def main(epochs=8):
    torch.manual_seed(5)
    train_set, valid_set = random_split(Houses(), [320, 80])
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    valid_loader = DataLoader(valid_set, batch_size=80)
    model, loss_fn = Regressor(), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = OneCycleLR(optimizer, max_lr=0.1, epochs=epochs, steps_per_epoch=len(train_loader))
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(epoch, evaluate(model, valid_loader, loss_fn), scheduler.get_last_lr())


main()
