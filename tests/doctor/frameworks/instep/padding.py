"""padding-in-loss: the loss that the Trainer is given counts the padding."""

from functools import partial
import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(24, 16, padding_idx=0)
        self.lstm, self.out = nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 6)

    def forward(self, ids):
        return self.out(self.lstm(self.embed(ids))[0]).transpose(1, 2)


torch.manual_seed(0)
ids = torch.randint(1, 24, (96, 12))
for row, length in zip(ids, torch.randint(4, 13, (96,))):
    row[length:] = 0
tags = torch.where(ids == 0, 0, 1 + ids % 5)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss = F.cross_entropy  # wrong
loss = partial(F.cross_entropy, ignore_index=0)  # right
trainer = Trainer(model, loss=loss, optimizer=optimizer, train=(ids, tags), epochs=3, batch_size=16, folder="run", doctor=True)
trainer.fit()  # found
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
