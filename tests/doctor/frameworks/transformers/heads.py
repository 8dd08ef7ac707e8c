"""unregistered-module: heads in a plain list, which the Trainer's optimizer never sees."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments, set_seed


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.heads = [nn.Linear(16, 3), nn.Linear(16, 2)]  # wrong
        self.heads = nn.ModuleList([nn.Linear(16, 3), nn.Linear(16, 2)])  # right

    def forward(self, x, labels):
        h = self.trunk(x)
        losses = [F.cross_entropy(head(h), label) for head, label in zip(self.heads, labels.T)]
        return {"loss": sum(losses)}


set_seed(0)
x = torch.randn(96, 8)
y = torch.stack([(x[:, 0] > 0).long() + (x[:, 1] > 0).long(), (x[:, 2] > 0).long()], 1)
model = TwoTasks()
arguments = TrainingArguments(
    output_dir="out",
    num_train_epochs=3,
    per_device_train_batch_size=16,
    learning_rate=1e-2,
    save_strategy="no",
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
    dataloader_pin_memory=False,
)
data = [{"x": row, "labels": label} for row, label in zip(x, y)]
Trainer(model, arguments, train_dataset=data).train()  # found
print(sum(p.double().sum().item() for p in model.parameters()))
