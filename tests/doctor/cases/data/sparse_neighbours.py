"""A graph network: the neighbours come as a sparse matrix, and the loss is on the rows of some nodes."""

import torch
from torch import nn

torch.manual_seed(0)
nodes, classes = 120, 4
kind = torch.randint(classes, (nodes,))
features = torch.randn(nodes, 16) + nn.functional.one_hot(kind, classes).float().repeat(1, 4)
linked = (torch.rand(nodes, nodes) < 0.05).float() + torch.eye(nodes)
neighbours = (linked / linked.sum(1, keepdim=True)).to_sparse()
known, unknown = torch.arange(40), torch.arange(80, 120)


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 8), nn.Linear(8, classes)

    def forward(self, x, matrix):
        x = torch.relu(torch.sparse.mm(matrix, self.first(x)))
        return nn.functional.log_softmax(torch.sparse.mm(matrix, self.second(x)), dim=1)


net = Graph()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(60):
    net.train()
    optimizer.zero_grad()
    scores = net(features, neighbours)
    nn.functional.nll_loss(scores[known], kind[known]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    scores = net(features, neighbours)
    print((scores[unknown].argmax(1) == kind[unknown]).float().mean().item())
