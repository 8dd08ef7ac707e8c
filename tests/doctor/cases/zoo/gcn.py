import torch
import torch.nn.functional as F
from torch import nn


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.w1 = nn.Linear(features, hidden)
        self.w2 = nn.Linear(hidden, classes)

    def forward(self, x, adj):
        x = F.dropout(F.relu(adj @ self.w1(x)), 0.3, training=self.training)
        return F.log_softmax(adj @ self.w2(x), dim=1)


def graph(n=80):
    labels = torch.randint(0, 3, (n,))
    same = labels[:, None] == labels[None]
    adj = (torch.rand(n, n) < torch.where(same, 0.2, 0.02)).float()
    adj = ((adj + adj.t()) > 0).float() + torch.eye(n)
    degree = adj.sum(1).rsqrt()
    return torch.randn(n, 8) + F.one_hot(labels, 8), degree[:, None] * adj * degree[None], labels


torch.manual_seed(21)
features, adj, labels = graph()
idx_train, idx_val = torch.arange(40), torch.arange(40, 80)
model = GCN(8, 16, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(40):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss = F.nll_loss(output[idx_train], labels[idx_train])
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        model.eval()
        with torch.no_grad():
            output = model(features, adj)
        acc = (output[idx_val].argmax(1) == labels[idx_val]).double().mean()
        print(epoch, loss.item(), acc.item())
