import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
x = torch.randn(600, 10)
y = (x.sum(1) > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=30, shuffle=True)
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1), nn.Flatten(0))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.ConstantLR(opt, 0.5, total_iters=4)
for epoch in range(10):
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(a), b)
        loss.backward()
        opt.step()
    if epoch == 4:
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.8)
    sched.step()
    print(epoch, loss.item(), sched.get_last_lr())
