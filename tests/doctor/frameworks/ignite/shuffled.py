"""not-shuffled: classes stand one after the other, and the loader keeps their order."""

import torch
from ignite.engine import Engine, Events
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
y = torch.arange(160) // 40
x = torch.randn(160, 8) + y[:, None]
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def update(engine, batch):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


trainer = Engine(update)
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: print(engine.state.output))
loader = DataLoader(TensorDataset(x, y), batch_size=16)  # wrong, found
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)  # right
trainer.run(loader, max_epochs=3)
print(sum(p.double().sum().item() for p in model.parameters()))
