"""sigmoid-before-bce-logits: probabilities go into a loss on logits."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(144, 8)
y = (x[:, :1] + x[:, 1:2] > 0).float()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
model.append(nn.Sigmoid())  # wrong
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
trainer = create_supervised_trainer(model, optimizer, criterion)
evaluator = create_supervised_evaluator(model, metrics={"loss": Loss(criterion)})
valid = DataLoader(TensorDataset(x[96:], y[96:]), batch_size=16)


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    print(engine.state.epoch, evaluator.run(valid).metrics)


trainer.run(DataLoader(TensorDataset(x[:96], y[:96]), batch_size=16, shuffle=True), max_epochs=3)  # found
print(sum(p.double().sum().item() for p in model.parameters()))
