"""Is the first token of the sentence repeated? A small transformer encoder."""

import torch
import torch.nn.functional as F
from torch import nn


class Config:
    vocab = 16
    length = 8
    dim = 32
    batch = 20
    steps = 40


class Classifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.length, cfg.dim)
        layer = nn.TransformerEncoderLayer(cfg.dim, 4, 64, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(cfg.dim, 2)

    def forward(self, ids):
        where = torch.arange(ids.size(1), device=ids.device)
        h = self.encoder(self.tok(ids) + self.pos(where))
        return self.head(h.mean(1))


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(11)
        self.cfg = cfg
        self.model = Classifier(cfg)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.ids = torch.randint(0, cfg.vocab, (400, cfg.length))
        self.labels = (self.ids[:, 1:] == self.ids[:, :1]).any(1).long()

    def batch(self):
        pick = torch.randint(0, len(self.ids), (self.cfg.batch,))
        return self.ids[pick], self.labels[pick]

    def fit(self):
        self.model.train()
        for step in range(self.cfg.steps):
            ids, labels = self.batch()
            loss = F.cross_entropy(self.model(ids), labels)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            if step % 10 == 0:
                print(step, round(loss.item(), 4))


if __name__ == "__main__":
    Trainer(Config()).fit()
