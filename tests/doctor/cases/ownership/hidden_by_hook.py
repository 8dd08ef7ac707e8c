"""Self-supervision on a given classifier: a hook takes what its body gives, and what its head gives is thrown away."""

import copy

import torch
from torch import nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(x))


class Hidden(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network, self.taken = network, []
        self.project = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
        network.body.register_forward_hook(lambda module, given, result: self.taken.append(result))

    def forward(self, x):
        self.network(x)
        return self.project(self.taken.pop())


network = Classifier()
online, predict = Hidden(network), nn.Linear(8, 8)
target = Hidden(copy.deepcopy(network)).requires_grad_(False)
optimizer = torch.optim.Adam([*online.parameters(), *predict.parameters()], lr=3e-4)
for _ in range(300):
    x = torch.randn(64, 16) + torch.randint(3, (64, 1))
    one, two = (x + 0.1 * torch.randn_like(x) for _ in range(2))
    with torch.no_grad():
        goal = target(two)
    loss = (1 - nn.functional.cosine_similarity(predict(online(one)), goal)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(target.parameters(), online.parameters(), strict=True):
            old.lerp_(new, 0.01)
