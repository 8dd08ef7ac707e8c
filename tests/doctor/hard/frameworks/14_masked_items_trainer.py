# kind: inside frameworks
# expect: nothing
# like: future-leaks
# why: outputs depend on later positions, as they should: this is masked-item modelling, the loss looks only at masked
#      positions (-100 elsewhere), and the validation baskets are masked once, when they are made.
"""Masked-item pretraining on shopping baskets: a tiny BERT, Trainer and an own masking collator."""
import argparse
import logging
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)
logging.getLogger("transformers").setLevel(logging.ERROR)
MASK, ITEMS, THEMES, LENGTH = 0, 81, 8, 16  # item 0 is the mask


def make_baskets(count, seed):
    g = torch.Generator().manual_seed(seed)
    theme = torch.randint(0, THEMES, (count, 1), generator=g)
    inside = 1 + theme * 10 + torch.randint(0, 10, (count, LENGTH), generator=g)
    anything = torch.randint(1, ITEMS, (count, LENGTH), generator=g)
    return torch.where(torch.rand(count, LENGTH, generator=g) < 0.8, inside, anything)


def mask_items(ids, probability, generator=None):
    chosen = torch.rand(ids.shape, generator=generator) < probability
    chosen[:, 0] |= ~chosen.any(dim=1)  # at least one per basket
    return ids.masked_fill(chosen, MASK), ids.masked_fill(~chosen, -100)


class Baskets(Dataset):
    def __init__(self, ids, labels=None):
        self.ids, self.labels = ids, labels

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        item = {"input_ids": self.ids[i]}
        if self.labels is not None:
            item["labels"] = self.labels[i]
        return item


class MaskingCollator:
    """Masks training baskets anew every time; baskets that already carry labels are left alone."""

    def __init__(self, probability=0.2):
        self.probability = probability

    def __call__(self, items):
        ids = torch.stack([item["input_ids"] for item in items])
        if "labels" in items[0]:
            return {"input_ids": ids, "labels": torch.stack([item["labels"] for item in items])}
        masked, labels = mask_items(ids, self.probability)
        return {"input_ids": masked, "labels": labels}


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        for key in ("loss", "eval_loss"):
            if key in logs:
                print(f"step {state.global_step}: {key} {float(logs[key]):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    set_seed(14)
    config = BertConfig(
        vocab_size=ITEMS, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=LENGTH, type_vocab_size=1,
    )
    valid = Baskets(*mask_items(make_baskets(512, seed=2), 0.2, torch.Generator().manual_seed(2)))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=BertForMaskedLM(config),
            args=TrainingArguments(
                folder, num_train_epochs=args.epochs, per_device_train_batch_size=32, per_device_eval_batch_size=128,
                learning_rate=2e-3, warmup_steps=20, eval_strategy="epoch", save_strategy="no", logging_steps=40,
                report_to=[], use_cpu=True, disable_tqdm=True, seed=14, remove_unused_columns=False,
            ),
            data_collator=MaskingCollator(),
            train_dataset=Baskets(make_baskets(2048, seed=1)),
            eval_dataset=valid,
            callbacks=[Report()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
