"""frozen-batchnorm-moves: weights are frozen by hand, their BatchNorm is not."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer
from instep import freeze

torch.manual_seed(0)
x = 2 + torch.randn(96, 8)
y = (x[:, 0] > 2).long() + (x[:, 1] > 2).long()
backbone = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())
backbone.requires_grad_(False)  # wrong
freeze(backbone)  # right
model = nn.Sequential(backbone, nn.Linear(16, 3))
optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
trainer = Trainer(
    model, loss=F.cross_entropy, optimizer=optimizer, train=(x, y), epochs=3, batch_size=16, folder="run", doctor=True
)
trainer.fit()  # found
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
