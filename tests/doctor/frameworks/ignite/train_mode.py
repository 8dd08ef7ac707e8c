"""trained-in-eval-mode: nobody calls train() again after an evaluation."""

import torch
from ignite.engine import Engine, Events
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
valid = DataLoader(TensorDataset(x[96:], y[96:]), batch_size=16)


def update(engine, batch):
    model.train()  # right
    optimizer.zero_grad()
    scores = model(batch[0])  # found
    F.cross_entropy(scores, batch[1]).backward()
    optimizer.step()


def judge(engine, batch):
    model.eval()
    with torch.no_grad():
        return (model(batch[0]).argmax(1) == batch[1]).float().mean().item()


trainer, evaluator = Engine(update), Engine(judge)
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: print(evaluator.run(valid).output))
trainer.run(DataLoader(TensorDataset(x[:96], y[:96]), batch_size=16, shuffle=True), max_epochs=4)
print(sum(p.double().sum().item() for p in model.parameters()))
