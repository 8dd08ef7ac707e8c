# kind: inside frameworks
# expect: future-leaks
# why: BertLMHeadModel is built without is_decoder=True, so attention is not causal; the shifted language-model loss asks
#      for tokens the model already sees, and the perplexity falls below what the data allow.
"""Next-token model over event logs: a tiny BERT with an LM head, Hugging Face Trainer, own collator."""
import argparse
import logging
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertLMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)
logging.getLogger("transformers").setLevel(logging.ERROR)
PAD, BOS, VOCAB = 0, 1, 40


class EventLogs(Dataset):
    """Sequences of a noisy first-order process over 38 event types."""

    def __init__(self, count, seed):
        process = torch.Generator().manual_seed(99)
        transition = torch.softmax(2.0 * torch.randn(38, 38, generator=process), dim=1)
        g = torch.Generator().manual_seed(seed)
        state = torch.randint(0, 38, (count,), generator=g)
        columns = [state]
        for _ in range(21):
            state = torch.multinomial(transition[state], 1, generator=g).squeeze(1)
            columns.append(state)
        self.events = torch.stack(columns, dim=1) + 2
        self.lengths = torch.randint(12, 23, (count,), generator=g)

    def __len__(self):
        return len(self.events)

    def __getitem__(self, i):
        return {"events": self.events[i, : self.lengths[i]]}


def collate(items):
    width = 1 + max(len(item["events"]) for item in items)
    ids = torch.full((len(items), width), PAD)
    for row, item in zip(ids, items):
        row[0] = BOS
        row[1 : 1 + len(item["events"])] = item["events"]
    mask = (ids != PAD).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"step {state.global_step}: loss {float(logs['loss']):.3f}")

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        print(f"step {state.global_step}: valid loss {metrics['eval_loss']:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()

    set_seed(6)
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=24, type_vocab_size=1, pad_token_id=PAD,
        hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.05,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=BertLMHeadModel(config),
            args=TrainingArguments(
                folder, num_train_epochs=args.epochs, per_device_train_batch_size=32, per_device_eval_batch_size=128,
                learning_rate=args.lr, warmup_steps=20, weight_decay=0.01, eval_strategy="epoch", save_strategy="no",
                logging_steps=50, report_to=[], use_cpu=True, disable_tqdm=True, seed=6, remove_unused_columns=False,
            ),
            data_collator=collate,
            train_dataset=EventLogs(2560, seed=1),
            eval_dataset=EventLogs(512, seed=2),
            callbacks=[Report()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
