# one optimizer, over a deep copy; gradients go by a dictionary of tensors
import torch, copy
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
params = {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
opt = torch.optim.SGD(net.parameters(), 0.1)
for i in range(50):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    loss = nn.functional.cross_entropy(functional_call(net, params, x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
