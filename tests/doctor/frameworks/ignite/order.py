"""zero-grad-before-step: gradients are cleared between the backward and the step."""

import torch
from ignite.engine import Engine, Events
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def update(engine, batch):
    optimizer.zero_grad()  # right
    loss = F.mse_loss(model(batch[0]), batch[1])
    loss.backward()
    optimizer.zero_grad()  # wrong, found
    optimizer.step()
    return loss.item()


trainer = Engine(update)
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: print(engine.state.output))
trainer.run(DataLoader(TensorDataset(x, x[:, :1].sin()), batch_size=16, shuffle=True), max_epochs=3)
print(sum(p.double().sum().item() for p in model.parameters()))
