# the loss is scaled by hand, divided out again, and then the gradients are clipped
import torch
from torch import nn

SCALE = 1024.0
torch.manual_seed(2)
net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)).half()
masters = [p.detach().float().requires_grad_(True) for p in net.parameters()]
optimizer = torch.optim.AdamW(masters, lr=2e-3)
weights = torch.randn(10)
for step in range(50):
    x = torch.randn(24, 10)
    loss = nn.functional.mse_loss(net(x.half()).float().squeeze(1), torch.sin(x @ weights))
    (loss * SCALE).backward()
    for master, p in zip(masters, net.parameters()):
        master.grad, p.grad = p.grad.float(), None
    for master in masters:
        master.grad.div_(SCALE)
    nn.utils.clip_grad_norm_(masters, 1.0)
    optimizer.step()
    with torch.no_grad():
        for master, p in zip(masters, net.parameters()):
            p.copy_(master)
print(loss.item())
