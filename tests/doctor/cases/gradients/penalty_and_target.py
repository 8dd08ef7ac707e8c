import torch
from torch import nn

torch.manual_seed(54)
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
slow = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)).requires_grad_(False)
slow.load_state_dict(net.state_dict())
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(150):
    x = torch.randn(48, 6)
    target = x[:, 1:2] + 0.5 * slow(x + 0.1).detach()
    loss = nn.functional.smooth_l1_loss(net(x), target) + 1e-3 * sum(p.pow(2).sum() for p in net.parameters())
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for a, b in zip(slow.parameters(), net.parameters()):
            a.lerp_(b, 0.05)
    if step % 50 == 0:
        print(step, loss.item())
