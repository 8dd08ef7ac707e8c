import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
centres = torch.tensor([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
y = torch.arange(150) % 3
X = centres[y] + 0.3 * torch.randn(150, 4)
X = (X - X.mean(0)) / X.std(0)
loader = DataLoader(TensorDataset(X, y), batch_size=15, shuffle=True)


class IrisNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


model = IrisNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    correct = 0
    for xb, yb in loader:
        out = model(xb)
        loss = criterion(out, yb)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        correct += (out.argmax(1) == yb).sum().item()
    print("epoch", epoch, "acc", correct / 150)
