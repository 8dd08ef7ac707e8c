"""schedule-wrong-unit: a schedule counted in epochs, attached to every iteration."""

import torch
from ignite.engine import Engine, Events
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)


def update(engine, batch):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


trainer = Engine(update)
trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda: schedule.step())  # wrong, found
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: schedule.step())  # right
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: print(schedule.get_last_lr(), engine.state.output))
trainer.run(DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True), max_epochs=6)
print(sum(p.double().sum().item() for p in model.parameters()))
