import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(16)
x = torch.randn(120, 30)
y = torch.randint(0, 4, (120,))
train = DataLoader(TensorDataset(x[:60], y[:60]), batch_size=12, shuffle=True)
valid = DataLoader(TensorDataset(x[60:], y[60:]), batch_size=60)
model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", patience=1, factor=0.5)
criterion = nn.CrossEntropyLoss()
for epoch in range(14):
    model.train()
    for xb, yb in train:
        optimizer.zero_grad()
        criterion(model(xb), yb).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val = sum(criterion(model(xb), yb).item() for xb, yb in valid) / len(valid)
    scheduler.step(val)
    print(epoch, val, optimizer.param_groups[0]["lr"])
