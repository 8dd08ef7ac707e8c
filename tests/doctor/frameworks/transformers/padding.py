"""padding-in-loss: the model's own loss counts the padding."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments, set_seed


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(24, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.out = nn.Linear(32, 6)

    def forward(self, input_ids, labels):
        logits = self.out(self.lstm(self.embed(input_ids))[0])
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())  # wrong, found
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)  # right
        return {"loss": loss, "logits": logits}


set_seed(0)
ids = torch.randint(1, 24, (96, 12))
for row, length in zip(ids, torch.randint(4, 13, (96,))):
    row[length:] = 0
tags = torch.where(ids == 0, 0, 1 + ids % 5)
data = [{"input_ids": row, "labels": label} for row, label in zip(ids, tags)]
model = Tagger()
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
Trainer(model, arguments, train_dataset=data).train()
print(sum(p.double().sum().item() for p in model.parameters()))
