import torch
from torch import nn

torch.manual_seed(23)
W = torch.randn(10, 3)
X = torch.randn(300, 10)
Y = (X @ W).argmax(1)

net = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 3))
lr = 0.05
for epoch in range(4):
    perm = torch.randperm(300)
    for i in range(0, 300, 25):
        idx = perm[i : i + 25]
        optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(X[idx]), Y[idx])
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
