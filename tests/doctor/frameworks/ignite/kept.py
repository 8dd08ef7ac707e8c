"""graph-kept: the update function returns the loss itself, and a handler collects what it returns."""

import torch
from ignite.engine import Engine, Events
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []


def update(engine, batch):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()  # found
    optimizer.step()
    return loss  # wrong
    return loss.detach()  # right


trainer = Engine(update)
trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output))
trainer.run(DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True), max_epochs=2)
print(torch.stack(losses).mean().item())
print(sum(p.double().sum().item() for p in model.parameters()))
