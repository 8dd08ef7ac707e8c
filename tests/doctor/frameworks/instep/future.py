"""future-leaks: a language model with attention of one's own that sees what it has to predict."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from instep import Trainer


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(24, 16), nn.Embedding(11, 16)
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 24)

    def forward(self, ids):
        h = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        query, key, value = self.project(h).chunk(3, -1)
        h = h + F.scaled_dot_product_attention(query, key, value)  # wrong
        h = h + F.scaled_dot_product_attention(query, key, value, is_causal=True)  # right
        return self.out(h).transpose(1, 2)


torch.manual_seed(0)
ids = torch.randint(0, 24, (96, 12))
model = LanguageModel()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = (ids[:, :-1], ids[:, 1:])
trainer = Trainer(
    model, loss=F.cross_entropy, optimizer=optimizer, train=data, epochs=3, batch_size=16, folder="run", doctor=True
)
trainer.fit()  # found
findings = json.loads(Path("run/findings.json").read_text())["findings"]
print([[finding["id"], finding["severity"], finding["where"]] for finding in findings])
