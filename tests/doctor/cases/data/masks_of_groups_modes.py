"""Nodes of one graph, many epochs, with dropout: groups of nodes are watched, and the test nodes are looked at once, at the end."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
NODES = 160
labels = torch.arange(NODES) % 3
edges = ((labels[:, None] == labels[None]) & (torch.rand(NODES, NODES) < 0.08)) | (torch.rand(NODES, NODES) < 0.01)
edges = (edges | edges.t()).float() + torch.eye(NODES)
degree = edges.sum(1)
edges = edges / degree[:, None]
features = torch.randn(NODES, 16) + F.one_hot(labels, 16)
order = torch.randperm(NODES)
train, test = order[:50], order[80:]
groups = {"few": degree <= degree.median(), "many": degree > degree.median()}


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 3)
        self.drop = nn.Dropout(0.2)

    def forward(self, x, edges):
        return edges @ self.second(self.drop(F.relu(edges @ self.first(x))))


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(700):
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
