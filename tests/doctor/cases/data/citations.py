"""Node classification on one graph, full batch."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphConv(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.lin = nn.Linear(fin, fout)

    def forward(self, x, adj):
        return adj @ self.lin(x)


class GCN(nn.Module):
    def __init__(self, fin, hidden, classes, dropout):
        super().__init__()
        self.gc1 = GraphConv(fin, hidden)
        self.gc2 = GraphConv(hidden, classes)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def build_graph(n, classes):
    labels = torch.randint(0, classes, (n,))
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    link = (torch.rand(n, n) < torch.where(same, 0.15, 0.01)).float()
    adj = ((link + link.t()) > 0).float() + torch.eye(n)
    adj = adj / adj.sum(1, keepdim=True)
    return torch.randn(n, 8) + F.one_hot(labels, 8).float(), adj, labels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--hidden", type=int, default=16)
    args = p.parse_args()
    torch.manual_seed(42)
    x, adj, y = build_graph(90, 4)
    idx = torch.randperm(90)
    train, valid = idx[:50], idx[50:]
    model = GCN(8, args.hidden, 4, 0.3)
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        opt.zero_grad()
        loss = F.nll_loss(model(x, adj)[train], y[train])
        loss.backward()
        opt.step()
        if (epoch + 1) % 10 == 0:
            model.eval()
            with torch.no_grad():
                out = model(x, adj)
                print(epoch + 1, loss.item(), (out[valid].argmax(1) == y[valid]).float().mean().item())


main()
