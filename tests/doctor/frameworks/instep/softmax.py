"""softmax-before-cross-entropy: in an objective, where the Trainer does not refuse it."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer


def objective(model, batch):
    x, y = batch
    chances = model(x).softmax(1)  # wrong, found
    chances = model(x)  # right
    return F.cross_entropy(chances, y)


torch.manual_seed(0)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
trainer = Trainer(
    model, objective=objective, optimizer=optimizer, train=(x, y), epochs=3, batch_size=16, folder="run", doctor=True
)
trainer.fit()
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
