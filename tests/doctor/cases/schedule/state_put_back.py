import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(17)
x = torch.randn(720, 9)
y = (x[:, 0] > x[:, 1]).long()
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
net = nn.Sequential(nn.Linear(9, 30), nn.ReLU(), nn.Linear(30, 2))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
fresh = copy.deepcopy(opt.state_dict())


def begin_epoch(epoch):
    net.train()
    opt.load_state_dict(fresh)


for epoch in range(8):
    begin_epoch(epoch)
    for a, b in loader:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
