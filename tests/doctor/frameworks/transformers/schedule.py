"""schedule-wrong-unit: a schedule counted in epochs, which the Trainer steps with every update."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments, set_seed


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


set_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = Classifier()
arguments = TrainingArguments(
    output_dir="out",
    num_train_epochs=6,
    per_device_train_batch_size=16,
    learning_rate=1e-2,
    save_strategy="no",
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
    dataloader_pin_memory=False,
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)  # wrong, found
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2 * 10, gamma=0.1)  # right
data = [{"x": row, "labels": label} for row, label in zip(x, y)]
Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, schedule)).train()
print(schedule.get_last_lr())
