# one of two optimizers gets gradients that are exactly zero: its margin is kept from the beginning
import torch
from torch import nn

torch.manual_seed(12)
body, head, ranker = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 1)
nn.init.constant_(ranker.bias, 4.0)
first = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
second = torch.optim.Adam(ranker.parameters(), lr=1e-2)
mixing = torch.randn(8, 3)
for step in range(40):
    x = torch.randn(32, 8)
    h = torch.tanh(body(x))
    label_loss = nn.functional.cross_entropy(head(h), (x @ mixing).argmax(1))
    margin_loss = torch.relu(0.1 - ranker(h.detach())).mean()
    first.zero_grad()
    second.zero_grad()
    (label_loss + margin_loss).backward()
    first.step()
    second.step()
