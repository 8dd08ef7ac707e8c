"""A correct graph autoencoder: its second input is the sparse adjacency that it learns to give back, as a dense target."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
groups = torch.arange(48) % 4
near = (groups[:, None] == groups[None]) & (torch.rand(48, 48) < 0.3)
adjacency = (near | near.t() | torch.eye(48, dtype=torch.bool)).float()
scaled = adjacency / adjacency.sum(1, keepdim=True)
features = F.one_hot(groups, 4).float() + 0.3 * torch.randn(48, 4)


class Layer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)

    def forward(self, x, graph):
        return torch.sparse.mm(graph, x @ self.weight)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(4, 16), Layer(16, 8)

    def forward(self, x, graph):
        z = self.second(self.first(x, graph).relu(), graph)
        return z @ z.t()


model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
graph = scaled.to_sparse()
for step in range(80):
    loss = F.binary_cross_entropy_with_logits(model(features, graph), adjacency, pos_weight=torch.tensor(5.0))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(step + 1, round(loss.item(), 4))
