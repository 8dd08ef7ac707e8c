# an autoencoder's encoder is fine-tuned by an optimizer of its own, through a helper that detaches what it gives
import torch
from torch import nn

torch.manual_seed(7)
parts = {
    "encoder": nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 6)),
    "decoder": nn.Linear(6, 10),
    "head": nn.Linear(6, 3),
}
mixing = torch.randn(10, 3)


def features(x):
    return parts["encoder"](x).detach()


def update(loss, *optimizers):
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()


first = torch.optim.Adam([*parts["encoder"].parameters(), *parts["decoder"].parameters()], lr=1e-2)
for step in range(60):
    x = torch.randn(32, 10)
    update(nn.functional.mse_loss(parts["decoder"](parts["encoder"](x)), x), first)
body = torch.optim.SGD(parts["encoder"].parameters(), lr=1e-2)
top = torch.optim.SGD(parts["head"].parameters(), lr=1e-1)
for step in range(60):
    x = torch.randn(32, 10)
    update(nn.functional.cross_entropy(parts["head"](features(x)), (x @ mixing).argmax(1)), body, top)
