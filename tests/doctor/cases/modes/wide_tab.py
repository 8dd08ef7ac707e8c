import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class WideTab(nn.Module):
    def __init__(self, n_in, n_out, hidden=32, p=0.3):
        super().__init__()
        self.fc1 = nn.Linear(n_in, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, n_out)
        self.p = p

    def forward(self, x):
        x = F.dropout(F.relu(self.fc1(x)), self.p)
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def main():
    torch.manual_seed(14)
    x = torch.randn(300, 10)
    y = (x[:, :5].sum(1) > x[:, 5:].sum(1)).long()
    train_dl = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
    test_dl = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=30)
    model = WideTab(10, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        model.train()
        for xb, yb in train_dl:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in test_dl)
        print(epoch, loss.item(), right / 60)


if __name__ == "__main__":
    main()
