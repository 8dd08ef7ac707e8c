import torch
import torch.nn as nn
import torch.nn.functional as F


class Frozen(nn.Module):
    def __init__(self, net, requires_grad=False):
        super().__init__()
        self.net = net
        self.requires_grad = requires_grad
        for p in self.net.parameters():
            p.requires_grad = requires_grad

    def forward(self, x):
        return self.net(x)


torch.manual_seed(0)
body = Frozen(nn.Sequential(nn.Linear(6, 20), nn.ReLU()))
head = nn.Linear(20, 2)
model = nn.Sequential(body, head)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
x = torch.randn(180, 6)
y = (x.sum(1) > 0).long()
for epoch in range(4):
    for part in torch.randperm(180).split(18):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
