import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        glyphs = torch.rand(10, 64, generator=torch.Generator().manual_seed(99))
        self.y = torch.randint(0, 10, (n,), generator=g)
        self.x = glyphs[self.y] + 0.3 * torch.randn(n, 64, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def train_loop(dataloader, model, loss_fn, optimizer):
    model.train()
    for batch, (X, y) in enumerate(dataloader):
        loss = loss_fn(model(X), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_loop(dataloader, model, loss_fn):
    model.eval()
    size, num_batches = len(dataloader.dataset), len(dataloader)
    test_loss, correct = 0.0, 0.0
    for X, y in dataloader:
        pred = model(X)
        test_loss += loss_fn(pred, y).item()
        correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    print(f"Accuracy: {100 * correct / size:>0.1f}%, Avg loss: {test_loss / num_batches:>8f}")


torch.manual_seed(10)
train_dataloader = DataLoader(Digits(300, 0), batch_size=30, shuffle=True)
test_dataloader = DataLoader(Digits(120, 1), batch_size=30)
model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for t in range(4):
    print(f"Epoch {t + 1}")
    train_loop(train_dataloader, model, loss_fn, optimizer)
    test_loop(test_dataloader, model, loss_fn)
