import torch
from torch import nn

torch.manual_seed(54)
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)


def quantile_loss(pred, y, q=0.7):
    diff = torch.as_tensor(y - pred.detach().numpy())
    return torch.maximum(q * diff, (q - 1) * diff).mean()


for step in range(150):
    x = torch.randn(48, 6)
    y = x[:, :1].numpy() * 2
    loss = quantile_loss(net(x), y) + 1e-3 * sum(p.pow(2).sum() for p in net.parameters())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
