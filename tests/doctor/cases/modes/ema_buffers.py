import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(27)
x = torch.randn(260, 4)
y = (x[:, 0] * 2 > x[:, 1]).long()
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(4):
    model.train()
    for rows in torch.randperm(200).split(20):
        opt.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        opt.step()
        ema.update_parameters(model)
    ema.eval()
    with torch.no_grad():
        print(epoch, (ema(x[200:]).argmax(1) == y[200:]).float().mean().item())
