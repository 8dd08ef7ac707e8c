import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)


def data(n, shift):
    x = torch.randn(n, 10) + shift
    return DataLoader(TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long()), batch_size=32, shuffle=True)


def fit(net, loader, opt, sched, epochs):
    for epoch in range(epochs):
        net.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
        print(f"{epoch} {loss.item():.3f} lr {opt.param_groups[0]['lr']:.2e}")


net = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
pre = data(960, 0.0)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
fit(net, pre, opt, CosineAnnealingLR(opt, T_max=6 * len(pre)), 6)

fine = data(640, 0.3)
net[-1] = nn.Linear(48, 2)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
fit(net, fine, opt, CosineAnnealingLR(opt, T_max=10 * len(fine), eta_min=1e-5), 10)
