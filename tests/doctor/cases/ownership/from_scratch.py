"""A two-layer network on bare tensors."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
W1 = torch.zeros(5, 16, requires_grad=True)
b1 = torch.zeros(16, requires_grad=True)
W2 = torch.full((16, 3), 0.5, requires_grad=True)
b2 = torch.zeros(3, requires_grad=True)
params = [W1, b1, W2, b2]
optimizer = torch.optim.SGD(params, lr=0.05)
x = torch.randn(200, 5)
y = x[:, :3].argmax(1)


def forward(x):
    h = torch.sigmoid(x @ W1 + b1)
    return h @ W2 + b2


for epoch in range(5):
    for part in torch.randperm(200).split(20):
        loss = F.cross_entropy(forward(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
