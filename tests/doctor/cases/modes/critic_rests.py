# the critic is frozen for several steps of the generator, again and again
import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)
bce = nn.functional.binary_cross_entropy_with_logits
for i in range(20):
    for p in D.parameters():
        p.requires_grad_(True)
    real = torch.randn(16, 2)
    l = bce(D(real), torch.ones(16, 1)) + bce(D(G(torch.randn(16, 4)).detach()), torch.zeros(16, 1))
    od.zero_grad()
    l.backward()
    od.step()
    for p in D.parameters():
        p.requires_grad_(False)
    for _ in range(6):
        l = bce(D(G(torch.randn(16, 4))), torch.ones(16, 1))
        og.zero_grad()
        l.backward()
        og.step()
