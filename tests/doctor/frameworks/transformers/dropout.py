"""dropout-in-eval: functional dropout that is not told the mode."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments, set_seed


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x, labels):
        h = F.relu(self.hidden(x))
        h = F.dropout(h, 0.3)  # wrong, found
        h = F.dropout(h, 0.3, training=self.training)  # right
        logits = self.out(h)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


set_seed(0)
x = torch.randn(144, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
data = [{"x": row, "labels": label} for row, label in zip(x, y)]
model = Classifier()
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
arguments.eval_strategy = "epoch"
trainer = Trainer(model, arguments, train_dataset=data[:96], eval_dataset=data[96:])
trainer.train()
print(trainer.predict(data[96:]).predictions.sum().item())
