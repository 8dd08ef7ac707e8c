import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
points = torch.randn(420, 6)
kinds = (points[:, 0] * points[:, 1] > 0).long()
train = DataLoader(TensorDataset(points[:320], kinds[:320]), batch_size=20, shuffle=True)
valid = DataLoader(TensorDataset(points[320:], kinds[320:]), batch_size=50)


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    return sum((net(a).argmax(1) == b).sum().item() for a, b in loader) / len(loader.dataset)


model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
ema = model  # the copy is yet to come
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
best = 0.0
for epoch in range(6):
    model.train()
    for a, b in train:
        logits = model(a + 0.05 * torch.randn_like(a))
        with torch.no_grad():
            soft = ema(a).softmax(1)
        loss = F.cross_entropy(logits, b) + 0.5 * F.mse_loss(logits.softmax(1), soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(ema.parameters(), model.parameters(), strict=True):
                mine.lerp_(theirs, 0.05)
    for name, net in (("live", model), ("ema", ema)):
        score = accuracy(net, valid)
        if score > best:
            best, kept = score, copy.deepcopy(net.state_dict())
        print(epoch, name, round(score, 3))
