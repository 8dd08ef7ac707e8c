import torch
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR, LinearLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)
x = torch.randn(960, 8)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def pretrain(epochs):
    sched = LinearLR(opt, 1.0, 0.5, total_iters=epochs * len(loader))
    for _ in range(epochs):
        for a, b in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(a), b).backward()
            opt.step()
            sched.step()


def finetune(epochs):
    for group in opt.param_groups:
        group["lr"] = group["initial_lr"] = 0.02
    sched = ExponentialLR(opt, 0.97)
    for _ in range(epochs):
        for a, b in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(a), b)
            loss.backward()
            sched.step()
            opt.step()
        print(loss.item(), sched.get_last_lr())


pretrain(4)
finetune(3)
