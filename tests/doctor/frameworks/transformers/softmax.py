"""softmax-before-cross-entropy: a loss of one's own in compute_loss, on probabilities."""

import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        chances = outputs.logits.softmax(-1)  # wrong, found
        chances = outputs.logits  # right
        loss = F.cross_entropy(chances, labels, weight=torch.tensor([1.0, 2.0]))
        return (loss, outputs) if return_outputs else loss


set_seed(0)
ids = torch.randint(4, 32, (96, 6))
labels = (ids[:, 0] > 16).long()
data = [{"input_ids": row, "labels": label} for row, label in zip(ids, labels)]
config = BertConfig(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
model = BertForSequenceClassification(config)
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
Weighted(model, arguments, train_dataset=data).train()
print(sum(p.double().sum().item() for p in model.parameters()))
