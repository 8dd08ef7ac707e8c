"""Sort fruit by colour and weight."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(240, 5)
y = (X[:, 0] * X[:, 1] * X[:, 2] > 0).long()
loader = DataLoader(TensorDataset(X, y), batch_size=24, shuffle=True)
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.7, weight_decay=1.0)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    model.train()
    hits = 0
    for xb, yb in loader:
        optimizer.zero_grad()
        logits = model(xb)
        loss = criterion(logits, yb)
        loss.backward()
        optimizer.step()
        hits += (logits.argmax(1) == yb).sum().item()
    print(f"epoch {epoch}: accuracy {hits / 240:.3f}")
