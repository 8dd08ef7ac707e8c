# kind: frameworks
# expect: accumulation-not-divided
# why: forward takes **kwargs, so the Trainer leaves the division to the model and hands it num_items_in_batch; the model
#      ignores that and returns a mean, so the four accumulated means are added up without being divided.
"""Route support tickets to teams: own small model in the transformers Trainer, SGD with momentum."""
from __future__ import annotations

import argparse
import tempfile
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import EvalPrediction, PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments, set_seed
from transformers.modeling_outputs import SequenceClassifierOutput

PAD, VOCAB, TEAMS, LENGTH = 0, 200, 5, 24


class RouterConfig(PretrainedConfig):
    model_type = "ticket-router"

    def __init__(self, vocab: int = VOCAB, width: int = 48, teams: int = TEAMS, dropout: float = 0.1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocab, self.width, self.teams, self.dropout = vocab, width, teams, dropout


class RouterModel(PreTrainedModel):
    config_class = RouterConfig

    def __init__(self, config: RouterConfig) -> None:
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab, config.width, padding_idx=PAD)
        self.conv = nn.Conv1d(config.width, config.width, 3, padding=1)
        self.drop = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.width, config.teams)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None,
                **kwargs: Any) -> SequenceClassifierOutput:
        mask = attention_mask.unsqueeze(1).float()
        hidden = F.relu(self.conv(self.embed(input_ids).transpose(1, 2))) * mask
        pooled = hidden.sum(dim=2) / mask.sum(dim=2)
        logits = self.classifier(self.drop(pooled))
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.5)


class Tickets(Dataset):
    """Every team has words it uses more often; one in ten tickets is routed to another team."""

    def __init__(self, count: int, words: Tensor, gen: torch.Generator) -> None:
        team = torch.randint(TEAMS, (count,), generator=gen)
        self.tokens = torch.multinomial(words[team], LENGTH, replacement=True, generator=gen) + 1
        self.lengths = torch.randint(8, LENGTH + 1, (count,), generator=gen)
        self.mask = (torch.arange(LENGTH)[None] < self.lengths[:, None]).long()
        self.tokens = self.tokens * self.mask
        moved = torch.rand(count, generator=gen) < 0.1
        self.labels = torch.where(moved, torch.randint(TEAMS, (count,), generator=gen), team)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self.tokens[index], "attention_mask": self.mask[index], "labels": self.labels[index]}


def metrics(prediction: EvalPrediction) -> dict[str, float]:
    guess = np.argmax(prediction.predictions, axis=-1)
    return {"accuracy": float((guess == prediction.label_ids).mean())}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--accumulate", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    set_seed(8)
    gen = torch.Generator().manual_seed(8)
    words = torch.softmax(0.8 * torch.randn(TEAMS, VOCAB - 1, generator=gen), dim=1)
    train, valid = Tickets(2560, words, gen), Tickets(640, words, gen)
    model = RouterModel(RouterConfig())
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=1e-4)
    updates = options.epochs * len(train) // (8 * options.accumulate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=options.epochs, per_device_train_batch_size=8,
            gradient_accumulation_steps=options.accumulate, per_device_eval_batch_size=64, max_grad_norm=5.0,
            eval_strategy="epoch", logging_strategy="no", save_strategy="no", report_to="none", use_cpu=True, seed=8,
            disable_tqdm=True, dataloader_pin_memory=False,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=train, eval_dataset=valid,
                          compute_metrics=metrics, optimizers=(optimizer, scheduler))
        trainer.train()
        final = trainer.evaluate()
    print(f"validation loss {final['eval_loss']:.4f} accuracy {final['eval_accuracy']:.3f}")


if __name__ == "__main__":
    main()
