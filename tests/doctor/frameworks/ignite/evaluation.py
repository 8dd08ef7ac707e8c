"""evaluated-in-train-mode: the evaluation function leaves the model in train mode."""

import torch
from ignite.engine import Engine, Events
from ignite.metrics import Accuracy
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
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def judge(engine, batch):
    model.eval()  # right
    return model(batch[0]), batch[1]  # found


trainer, evaluator = Engine(update), Engine(judge)
Accuracy().attach(evaluator, "accuracy")
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: print(evaluator.run(valid).metrics))
trainer.run(DataLoader(TensorDataset(x[:96], y[:96]), batch_size=16, shuffle=True), max_epochs=3)
print(sum(p.double().sum().item() for p in model.parameters()))
