"""evaluated-in-train-mode: a callback that scores the model while it is in train mode."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))

    def forward(self, x, labels=None):
        logits = self.net(x)
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}


class Score(TrainerCallback):
    def __init__(self, held_out):
        self.held_out = held_out

    def on_epoch_end(self, args, state, control, model, **_):
        model.eval()  # right
        with torch.no_grad():
            hits = [(model(x)["logits"].argmax(1) == y).sum().item() for x, y in self.held_out]  # found
        model.train()  # right
        print(state.epoch, sum(hits))


set_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
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
data = [{"x": row, "labels": label} for row, label in zip(x[:96], y[:96])]
score = Score(DataLoader(TensorDataset(x[96:], y[96:]), batch_size=16))
Trainer(model, arguments, train_dataset=data, callbacks=[score]).train()
