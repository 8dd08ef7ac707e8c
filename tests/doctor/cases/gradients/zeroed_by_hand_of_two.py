# the second of two optimizers finds zeros, which a helper has written after the backward
import torch
from torch import nn

torch.manual_seed(13)
body, head = nn.Linear(8, 16), nn.Linear(16, 3)
first = torch.optim.Adam(body.parameters(), lr=1e-2)
second = torch.optim.Adam(head.parameters(), lr=1e-2)
mixing = torch.randn(8, 3)


def finish(optimizer, *modules):
    optimizer.step()
    for module in modules:
        for p in module.parameters():
            p.grad.fill_(0.0)


for step in range(40):
    x = torch.randn(32, 8)
    loss = nn.functional.cross_entropy(head(torch.tanh(body(x))), (x @ mixing).argmax(1))
    loss.backward()
    finish(first, body, head)
    finish(second, head)
