"""dropout-in-eval: functional dropout that is not told the mode."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x):
        h = self.hidden(x).relu()
        h = F.dropout(h, 0.3)  # wrong, found
        h = F.dropout(h, 0.3, training=self.training)  # right
        return self.out(h)


torch.manual_seed(0)
x = torch.randn(144, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = {"train": (x[:96], y[:96]), "valid": (x[96:], y[96:])}
trainer = Trainer(model, loss=F.cross_entropy, optimizer=optimizer, **data, epochs=3, batch_size=16, folder="run", doctor=True)
trainer.fit()
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
