import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
x = torch.randn(320, 6)
y = (x.pow(2).sum(1) > 5.5).long()
train_dl = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
valid_dl = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=40)

model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(4):
    model.train()
    for xb, yb in train_dl:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()

    model.eval
    with torch.inference_mode():
        correct, total, vloss = 0, 0, 0.0
        for xb, yb in valid_dl:
            out = model(xb)
            vloss += criterion(out, yb).item()
            correct += (out.argmax(dim=1) == yb).sum().item()
            total += len(yb)
    print(f"epoch {epoch} train {loss.item():.3f} valid {vloss / len(valid_dl):.3f} acc {correct / total:.3f}")
