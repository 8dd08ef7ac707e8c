import torch
from torch import nn

torch.manual_seed(0)
enc, dec = nn.Linear(8, 4), nn.Linear(4, 8)
aux = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-2)
opt_aux = torch.optim.Adam(aux.parameters(), 1e-2)
for i in range(60):
    x = torch.randn(32, 8)
    y = torch.randint(3, (32,))
    z = enc(x)
    loss = nn.functional.mse_loss(dec(z), x)
    with torch.no_grad():
        extra = nn.functional.cross_entropy(aux(z), y)
    loss = loss + extra
    opt.zero_grad()
    opt_aux.zero_grad()
    loss.backward()
    opt.step()
    opt_aux.step()
