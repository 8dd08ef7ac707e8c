import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def folds(n, k):
    order = torch.randperm(n)
    for part in order.chunk(k):
        rest = order[~torch.isin(order, part)]
        yield rest.tolist(), part.tolist()


torch.manual_seed(37)
x = torch.randn(300, 6)
y = (x[:, 0] - x[:, 1] > 0).long()
data = TensorDataset(x, y)
scores = []
for fold, (train_rows, valid_rows) in enumerate(folds(300, 3)):
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(Subset(data, train_rows), batch_size=20, shuffle=True)
    held_out = DataLoader(Subset(data, valid_rows), batch_size=50)
    for epoch in range(2):
        model.train()
        for xb, yb in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(xb), yb).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        hits = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in held_out)
    scores.append(hits / len(valid_rows))
    print(fold, scores[-1])
