# one network, called twice, on purpose: a Siamese pair; and an alias for saving
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
model = net
left = right = net
opt = torch.optim.SGD(net.parameters(), 0.05)
for i in range(40):
    a, b = torch.randn(16, 6), torch.randn(16, 6)
    with torch.no_grad():
        far = right(b)
    loss = nn.functional.mse_loss(left(a), far) + left(b).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
