import torch
import torch.nn as nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
C = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
opt_g = torch.optim.RMSprop(G.parameters(), lr=1e-3)
opt_c = torch.optim.RMSprop(C.parameters(), lr=1e-3)
for _step in range(30):
    for _ in range(2):
        for p in C.parameters():
            p.data.clamp_(-0.05, 0.05)
        opt_c.zero_grad()
        real = torch.randn(32, 1) * 0.3 + 2
        loss_c = C(G(torch.randn(32, 2)).detach()).mean() - C(real).mean()
        loss_c.backward()
        opt_c.step()
    opt_g.zero_grad()
    loss_g = -C(G(torch.randn(32, 2))).mean()
    loss_g.backward()
    opt_g.step()
print(loss_c.item(), loss_g.item())
