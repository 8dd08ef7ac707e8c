"""A soup of checkpoints of one run."""
import copy
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(29)
x = torch.rand(2200, 1, 8, 8)
y = (x[:, 0, :4].mean((1, 2)) > x[:, 0, 4:].mean((1, 2))).long()
x = x * 2
train = DataLoader(TensorDataset(x[:1700], y[:1700]), 50, shuffle=True)
test = DataLoader(TensorDataset(x[1700:], y[1700:]), 100)


def make():
    return nn.Sequential(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.BatchNorm2d(12), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 2))


@torch.no_grad()
def score(net):
    net.eval()
    return sum((net(xb).argmax(1) == yb).sum().item() for xb, yb in test) / 500


model = make()
opt = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
kept = []
for epoch in range(8):
    model.train()
    for xb, yb in train:
        loss = F.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, score(model))
    kept.append(copy.deepcopy(model.state_dict()))

soup = make()
mixed = copy.deepcopy(kept[-1])
for name, _ in soup.named_parameters():
    mixed[name] = torch.stack([state[name] for state in kept]).mean(0)
soup.load_state_dict(mixed)
print("soup", score(soup))
