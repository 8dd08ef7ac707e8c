"""bfloat16 weights with updates large enough for them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)).to(torch.bfloat16)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb.bfloat16()).float(), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
