"""Nodes of one graph: accuracy by groups of nodes is watched during training; the test nodes are looked at once, at the end."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
NODES = 200
labels = torch.arange(NODES) % 3
edges = ((labels[:, None] == labels[None]) & (torch.rand(NODES, NODES) < 0.08)) | (torch.rand(NODES, NODES) < 0.01)
edges = (edges | edges.t()).float() + torch.eye(NODES)
degree = edges.sum(1)
edges = edges / degree[:, None]
features = torch.randn(NODES, 16) + F.one_hot(labels, 16)
order = torch.randperm(NODES)
train = torch.zeros(NODES, dtype=torch.bool)
train[order[:60]] = True
test = torch.zeros(NODES, dtype=torch.bool)
test[order[100:]] = True
groups = {"few": degree <= degree.median(), "many": degree > degree.median()}


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 3)

    def forward(self, x, edges):
        return edges @ self.second(F.relu(edges @ self.first(x)))


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(100):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(features, edges)[train], labels[train]).backward()
    optimizer.step()
    if epoch % 10 == 9:
        model.eval()
        with torch.no_grad():
            out = model(features, edges)
        print(epoch, {name: (out[mask].argmax(1) == labels[mask]).float().mean().item() for name, mask in groups.items()})
model.eval()
with torch.no_grad():
    out = model(features, edges)
print("test", (out[test].argmax(1) == labels[test]).float().mean().item())
