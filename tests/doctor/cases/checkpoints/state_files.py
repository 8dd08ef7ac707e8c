import dataclasses
import os
import tempfile

import torch
from torch import nn


@dataclasses.dataclass
class Config:
    width: int = 24
    lr: float = 5e-3
    epochs: int = 4


class Checkpointer:
    def __init__(self, folder, **objects):
        self.folder, self.objects = folder, objects

    def save(self, name, **extra):
        state = {k: o.state_dict() for k, o in self.objects.items()}
        torch.save({**state, **extra}, os.path.join(self.folder, name))

    def load(self, name):
        state = torch.load(os.path.join(self.folder, name))
        for k, o in self.objects.items():
            o.load_state_dict(state[k])
        return state["epoch"]


def main(c):
    torch.manual_seed(11)
    x = torch.randn(200, 5)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(5, c.width), nn.ReLU(), nn.Linear(c.width, 2))
    opt = torch.optim.Adam(model.parameters(), lr=c.lr)
    with tempfile.TemporaryDirectory() as folder:
        ckpt = Checkpointer(folder, model=model, optimizer=opt)
        best = 0.0
        for epoch in range(c.epochs):
            model.train()
            for rows in torch.randperm(160).split(16):
                opt.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                opt.step()
            model.eval()
            with torch.no_grad():
                acc = (model(x[160:]).argmax(1) == y[160:]).float().mean().item()
            if acc > best:
                best = acc
                ckpt.save("best.pt", epoch=epoch, config=dataclasses.asdict(c))
        print("best epoch", ckpt.load("best.pt"), best)


main(Config())
