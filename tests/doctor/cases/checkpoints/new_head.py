import os
import tempfile

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        setattr(self, head, nn.Linear(16, 2))
        self.head_name = head

    def forward(self, x):
        return getattr(self, self.head_name)(self.encoder(x))


def train(model, x, y, epochs=3):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(15):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            opt.step()
    return loss.item()


torch.manual_seed(7)
x = torch.randn(150, 5)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "source.pt")
    source = Model("source_head")
    print(train(source, x, (x[:, 0] > 0).long()))
    torch.save(source.state_dict(), path)
    target = Model("target_head")
    result = target.load_state_dict(torch.load(path), strict=False)
    print("missing", result.missing_keys, "unexpected", result.unexpected_keys)
    print(train(target, x, (x[:, 1] > 0).long()))
