"""missing-zero-grad: the update function never clears gradients."""

import torch
from ignite.engine import Engine, Events
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def update(engine, batch):
    model.train()
    optimizer.zero_grad()  # right
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()  # found
    return loss.item()


trainer = Engine(update)
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: print(engine.state.epoch, engine.state.output))
trainer.run(DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True), max_epochs=3)
print(sum(p.double().sum().item() for p in model.parameters()))
