"""sigmoid-before-bce-logits: a sigmoid written by hand before a loss on logits."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x):
        logits = 4 * self.out(self.hidden(x).relu())
        return 1 / (1 + torch.exp(-logits))  # wrong
        return logits  # right


torch.manual_seed(0)
x = torch.randn(128, 8)
y = (x[:, :1] + x[:, 1:2] > 0).float()
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
loss = F.binary_cross_entropy_with_logits
trainer = Trainer(model, loss=loss, optimizer=optimizer, train=(x, y), epochs=4, batch_size=16, folder="run", doctor=True)
trainer.fit()  # found
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
