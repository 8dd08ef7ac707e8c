import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(15)
PEAK, WARM, TOTAL = 0.2, 20, 200


def rate(step):
    return PEAK * (step + 1) / WARM if step < WARM else PEAK * max(0.05, (TOTAL - step) / (TOTAL - WARM))


x = torch.randn(640, 12)
y = x[:, :5].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 5))
opt = torch.optim.SGD(net.parameters(), lr=PEAK, momentum=0.9)
sched = LambdaLR(opt, rate)
for epoch in range(10):
    for a, b in loader:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    print(epoch, loss.item(), sched.get_last_lr())
