"""unregistered-module: layers in a plain list."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.rest = [nn.ReLU(), nn.Linear(16, 3)]  # wrong
        self.rest = nn.ModuleList([nn.ReLU(), nn.Linear(16, 3)])  # right

    def forward(self, x):
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return x


torch.manual_seed(0)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
trainer = Trainer(
    model, loss=F.cross_entropy, optimizer=optimizer, train=(x, y), epochs=3, batch_size=16, folder="run", doctor=True
)
trainer.fit()  # found
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
