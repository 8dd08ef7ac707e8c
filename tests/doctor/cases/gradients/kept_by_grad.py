import torch
from torch import nn

torch.manual_seed(33)
net = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 1))
params = list(net.parameters())
losses = []
for step in range(200):
    x = torch.rand(64, 6)
    loss = (net(x) - x.sum(1, keepdim=True).sin()).pow(2).mean()
    grads = torch.autograd.grad(loss, params, retain_graph=True)
    with torch.no_grad():
        for p, g in zip(params, grads):
            p.sub_(0.1 * g)
    losses.append(loss)
print(losses[0].item(), torch.stack(losses[-20:]).mean().item())
