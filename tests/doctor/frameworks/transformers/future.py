"""future-leaks: a language model with attention of one's own that sees what it has to predict."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments, set_seed


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(24, 16), nn.Embedding(12, 16)
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 24)

    def forward(self, input_ids, labels=None):
        h = self.embed(input_ids) + self.place(torch.arange(input_ids.shape[1]))
        query, key, value = self.project(h).chunk(3, -1)
        h = h + F.scaled_dot_product_attention(query, key, value)  # wrong
        h = h + F.scaled_dot_product_attention(query, key, value, is_causal=True)  # right
        logits = self.out(h)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


set_seed(0)
ids = torch.randint(0, 24, (96, 12))
data = [{"input_ids": row, "labels": row} for row in ids]
model = LanguageModel()
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
trainer = Trainer(model, arguments, train_dataset=data)
trainer.train()  # found
print(sum(p.double().sum().item() for p in model.parameters()))
