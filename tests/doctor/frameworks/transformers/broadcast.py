"""loss-broadcast: a regression of one's own in compute_loss, (n, 1) against (n,)."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments, set_seed


class Regression(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        predicted = model(inputs["x"])
        loss = F.smooth_l1_loss(predicted, inputs["labels"])  # wrong, found
        loss = F.smooth_l1_loss(predicted.squeeze(1), inputs["labels"])  # right
        return (loss, {"logits": predicted}) if return_outputs else loss


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, labels=None):
        return self.net(x)


set_seed(0)
x = torch.randn(96, 6)
data = [{"x": row, "labels": row.sum()} for row in x]
model = Net()
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
Regression(model, arguments, train_dataset=data).train()
print(sum(p.double().sum().item() for p in model.parameters()))
