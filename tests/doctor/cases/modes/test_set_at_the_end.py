# validated right after each epoch of a long run; the test set at its end meets a model that was put back into train mode
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
x = torch.randn(560, 6)
y = (x[:, 0] > x[:, 1]).long()
loader = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=20, shuffle=True)
valid = DataLoader(TensorDataset(x[400:480], y[400:480]), batch_size=20)
test = DataLoader(TensorDataset(x[480:], y[480:]), batch_size=20)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.4), nn.Linear(24, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


@torch.no_grad()
def accuracy(data):
    return sum((model(a).argmax(1) == b).sum().item() for a, b in data) / 80


for epoch in range(16):
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    model.eval()
    print(epoch, accuracy(valid))
    model.train()
print("test", accuracy(test))
