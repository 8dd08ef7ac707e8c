"""parameter-not-optimized: the optimizer has the head alone."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer

torch.manual_seed(0)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model[2].parameters(), lr=1e-2)  # wrong
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)  # right
trainer = Trainer(
    model, loss=F.cross_entropy, optimizer=optimizer, train=(x, y), epochs=3, batch_size=16, folder="run", doctor=True
)
trainer.fit()  # found
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
