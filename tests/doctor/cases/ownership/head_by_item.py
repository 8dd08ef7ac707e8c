"""Two heads on one trunk, each called by itself. The second loss goes into the sum as a plain number."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 6)
loader = DataLoader(TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long()), batch_size=16, shuffle=True)
parts = nn.ModuleDict({"trunk": nn.Sequential(nn.Linear(6, 24), nn.ReLU()), "kind": nn.Linear(24, 2), "size": nn.Linear(24, 1)})
optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3)
for _ in range(4):
    for xb, yb in loader:
        h = parts["trunk"](xb)
        kind = F.cross_entropy(parts["kind"](h), yb)
        size = F.mse_loss(parts["size"](h).squeeze(1), xb[:, 2])
        optimizer.zero_grad()
        (kind + 0.5 * size.item()).backward()
        optimizer.step()
