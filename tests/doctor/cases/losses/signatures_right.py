"""Pairs of signatures, the same hand or not."""
import torch
from torch import nn

torch.manual_seed(19)
hands = torch.randn(20, 12)
net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 16))
loss_fn = nn.CosineEmbeddingLoss(margin=0.2)
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(200):
    a, b = torch.randint(0, 20, (64,)), torch.randint(0, 20, (64,))
    b = torch.where(torch.rand(64) < 0.5, a, b)
    same = (a == b).long() * 2 - 1
    one, two = hands[a] + 0.3 * torch.randn(64, 12), hands[b] + 0.3 * torch.randn(64, 12)
    loss = loss_fn(net(one), net(two), same)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        print(step, loss.item())
