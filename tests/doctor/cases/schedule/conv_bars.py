import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.fc1 = nn.Linear(6 * 3 * 3, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        return F.log_softmax(self.fc1(torch.flatten(x, 1)), dim=1)


def bars(n):
    x = 0.2 * torch.randn(n, 1, 8, 8)
    y = torch.randint(0, 2, (n,))
    for i in range(n):
        k = int(torch.randint(0, 8, (1,)))
        if y[i] == 0:
            x[i, 0, k] += 1
        else:
            x[i, 0, :, k] += 1
    return TensorDataset(x, y)


def train(model, train_loader, optimizer, scheduler, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if batch_idx % 10 == 0:
            print(f"Train Epoch: {epoch} [{batch_idx}/{len(train_loader)}] Loss: {loss.item():.6f}")


def test(model, test_loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            correct += (model(data).argmax(1) == target).sum().item()
    print(f"Accuracy: {correct}/{len(test_loader.dataset)}")


def main():
    torch.manual_seed(6)
    train_loader = DataLoader(bars(256), batch_size=16, shuffle=True)
    test_loader = DataLoader(bars(64), batch_size=64)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 5):
        train(model, train_loader, optimizer, scheduler, epoch)
        test(model, test_loader)


if __name__ == "__main__":
    main()
