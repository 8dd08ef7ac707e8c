"""Node classification on a synthetic citation graph, full batch."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
n, classes = 600, 4
y = torch.randint(classes, (n,))
x = torch.randn(n, 32) + 0.7 * F.one_hot(y, 32).float()
same = (y[:, None] == y[None]).float()
adj = (torch.rand(n, n) < 0.01 + 0.02 * same).float()
adj = ((adj + adj.t() + torch.eye(n)) > 0).float()
adj = adj / adj.sum(1, keepdim=True)

order = torch.randperm(n)
train_mask = torch.zeros(n, dtype=torch.bool)
train_mask[order[:200]] = True
valid_mask = torch.zeros(n, dtype=torch.bool)
valid_mask[torch.randperm(n)[:150]] = True


class GCN(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.first, self.second = nn.Linear(32, width), nn.Linear(width, classes)
        self.drop = nn.Dropout(0.3)

    def forward(self, x, adj):
        h = F.relu(adj @ self.first(x))
        return adj @ self.second(self.drop(h))


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
for epoch in range(120):
    model.train()
    out = model(x, adj)
    loss = F.cross_entropy(out[train_mask], y[train_mask])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 10 == 9:
        model.eval()
        with torch.no_grad():
            pred = model(x, adj)[valid_mask].argmax(1)
        print(epoch + 1, f"{loss.item():.3f} valid {(pred == y[valid_mask]).float().mean():.3f}")
