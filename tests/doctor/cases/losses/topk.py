import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def accuracy(output, target, topk=(1, 3)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        return [correct[:k].reshape(-1).float().sum().item() / target.size(0) for k in topk]


def one_hot(labels, classes):
    return (labels.unsqueeze(1) == torch.arange(classes)).float()


torch.manual_seed(28)
x = torch.randn(600, 10)
y = x.argmax(1)
loader = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=10, shuffle=True)
held_out = DataLoader(TensorDataset(x[500:], y[500:]), batch_size=10)
model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(2):
    model.train()
    for xb, yb in loader:
        loss = F.cross_entropy(model(xb), one_hot(yb, 10))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = [accuracy(model(xb), yb) for xb, yb in held_out]
    print(epoch, torch.tensor(scores).mean(0).tolist())
