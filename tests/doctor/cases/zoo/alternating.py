import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.scale * grad, None


torch.manual_seed(35)
xs, ys = torch.randn(320, 6), None
ys = (xs[:, 0] > 0).long()
xt = torch.randn(320, 6) + 0.7
source = DataLoader(TensorDataset(xs, ys), batch_size=20, shuffle=True)
target = DataLoader(TensorDataset(xt), batch_size=20, shuffle=True)
extractor = nn.Sequential(nn.Linear(6, 24), nn.ReLU())
label_head, domain_head = nn.Linear(24, 2), nn.Linear(24, 2)
modules = nn.ModuleList([extractor, label_head, domain_head])
optimizer = torch.optim.Adam(modules.parameters(), lr=3e-3)
for epoch in range(3):
    for step, ((sx, sy), (tx,)) in enumerate(zip(source, target)):
        scale = 2 / (1 + torch.exp(torch.tensor(-10.0 * (epoch * 16 + step) / 48)).item()) - 1
        hs, ht = extractor(sx), extractor(tx)
        both = GradReverse.apply(torch.cat([hs, ht]), scale)
        domain = torch.cat([torch.zeros(len(sx)), torch.ones(len(tx))]).long()
        loss = F.cross_entropy(label_head(hs), sy) + F.cross_entropy(domain_head(both), domain)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
