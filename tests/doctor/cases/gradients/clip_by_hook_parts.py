import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(40)
ACCUM = 4
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))


def limit(p):
    nn.utils.clip_grad_norm_([p], 0.1)


for p in net.parameters():
    p.register_post_accumulate_grad_hook(limit)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(960, 10)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=20, shuffle=True)
for epoch in range(6):
    for i, (a, b) in enumerate(loader):
        loss = nn.functional.cross_entropy(net(a), b)
        (loss / ACCUM).backward()
        if (i + 1) % ACCUM == 0:
            opt.step()
            opt.zero_grad()
    print(epoch, loss.item())
