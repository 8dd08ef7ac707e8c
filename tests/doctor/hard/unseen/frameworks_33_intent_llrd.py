# kind: inside frameworks
# expect: parameter-not-optimized
# why: The layer-wise learning-rate groups given to the Trainer take embeddings, transformer.layer.i and names that
#      start with "classifier"; DistilBERT's pre_classifier is in no group and stays at its random start.
import os
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments,
                          get_cosine_schedule_with_warmup, set_seed)

torch.set_num_threads(1)

PAD, CLS, FIRST = 0, 1, 2
VOCAB, INTENTS, MAXLEN = 120, 8, 24


class Utterances(Dataset):
    """Word ids drawn from a mixture of an intent-specific and a general vocabulary."""

    def __init__(self, n, seed, word_probs):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            intent = int(rng.integers(INTENTS))
            length = int(rng.integers(6, MAXLEN))
            topical = rng.random(length) < 0.35
            words = np.where(topical, rng.choice(VOCAB - FIRST, length, p=word_probs[intent]),
                             rng.integers(0, VOCAB - FIRST, length)) + FIRST
            self.rows.append({"input_ids": [CLS] + words.tolist(), "labels": intent})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.full((len(rows), longest), PAD)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, :len(r["input_ids"])] = torch.tensor(r["input_ids"])
        mask[i, :len(r["input_ids"])] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([r["labels"] for r in rows])}


def layerwise_groups(model, base_lr, decay, weight_decay):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]

    def pick(match, lr):
        chosen = [(n, p) for n, p in named if match(n)]
        plain = lambda n: n.endswith("bias") or "layer_norm" in n.lower()
        return [
            {"params": [p for n, p in chosen if not plain(n)], "lr": lr, "weight_decay": weight_decay},
            {"params": [p for n, p in chosen if plain(n)], "lr": lr, "weight_decay": 0.0},
        ]

    groups = pick(lambda n: n.startswith("classifier"), base_lr)
    lr = base_lr
    for depth in reversed(range(model.config.n_layers)):
        groups += pick(lambda n: f"transformer.layer.{depth}." in n, lr)
        lr *= decay
    groups += pick(lambda n: ".embeddings." in n, lr)
    return [g for g in groups if g["params"]]


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    set_seed(17)
    word_probs = np.random.default_rng(0).dirichlet(np.full(VOCAB - FIRST, 0.08), size=INTENTS)
    train, valid = Utterances(1600, 1, word_probs), Utterances(400, 2, word_probs)
    config = DistilBertConfig(vocab_size=VOCAB, max_position_embeddings=32, n_layers=3, n_heads=4, dim=64,
                              hidden_dim=128, num_labels=INTENTS, pad_token_id=PAD, dropout=0.1,
                              attention_dropout=0.1, seq_classif_dropout=0.1)
    model = DistilBertForSequenceClassification(config)
    epochs, batch = 6, 32
    optimizer = torch.optim.AdamW(layerwise_groups(model, base_lr=1.5e-3, decay=0.85, weight_decay=0.01))
    schedule = get_cosine_schedule_with_warmup(optimizer, 20, epochs * len(train) // batch)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(output_dir=out, num_train_epochs=epochs, per_device_train_batch_size=batch,
                                 per_device_eval_batch_size=100, eval_strategy="epoch", logging_steps=50,
                                 save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
                                 dataloader_pin_memory=False, seed=17)
        trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=valid, data_collator=collate,
                          compute_metrics=accuracy, optimizers=(optimizer, schedule))
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
