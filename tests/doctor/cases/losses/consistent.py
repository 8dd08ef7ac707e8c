"""Consistency between a network and its noisy reading."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(23)
x = torch.randn(1500, 14)
y = (x[:, :4] + 0.3 * torch.randn(1500, 4)).argmax(1)
net = nn.Sequential(nn.Linear(14, 48), nn.ReLU(), nn.Linear(48, 4))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
kl = nn.KLDivLoss(reduction="batchmean", log_target=True)
for epoch in range(6):
    for idx in torch.randperm(1200).split(40):
        xb = x[idx]
        with torch.no_grad():
            clean = net(xb).softmax(-1)
        noisy = F.log_softmax(net(xb + 0.2 * torch.randn_like(xb)), dim=-1)
        loss = F.cross_entropy(net(xb), y[idx]) + 0.5 * kl(noisy, clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
