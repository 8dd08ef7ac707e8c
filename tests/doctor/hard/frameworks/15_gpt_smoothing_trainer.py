# kind: inside frameworks
# expect: accumulation-not-divided
# why: GPT2's forward accepts loss kwargs, so Trainer leaves the division to compute_loss (num_items_in_batch); this
#      compute_loss ignores it and returns a mean, so four micro-batch means are added up and gradients are 4x too large.
"""Tiny GPT-2 on synthetic melodies with a label-smoothed loss of its own in Trainer."""

import argparse
import logging
import tempfile

import torch
from torch.nn import functional as F
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)
logging.getLogger("transformers").setLevel(logging.ERROR)
NOTES, LENGTH = 36, 24


class Melodies(Dataset):
    """Walks over a scale; a melody keeps its step pattern of three intervals."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        start = torch.randint(0, NOTES, (count, 1), generator=g)
        pattern = torch.randint(-3, 4, (count, 3), generator=g)
        steps = pattern.repeat(1, LENGTH // 3)
        slips = torch.randint(-1, 2, steps.shape, generator=g) * (torch.rand(steps.shape, generator=g) < 0.1)
        self.notes = (start + (steps + slips).cumsum(1)) % NOTES

    def __len__(self):
        return len(self.notes)

    def __getitem__(self, i):
        return {"input_ids": self.notes[i], "labels": self.notes[i]}


def collate(items):
    ids = torch.stack([item["input_ids"] for item in items])
    return {"input_ids": ids, "labels": ids.clone()}


class SmoothedTrainer(Trainer):
    smoothing = 0.05

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["labels"]
        outputs = model(input_ids=inputs["input_ids"])
        loss = F.cross_entropy(
            outputs.logits[:, :-1].flatten(0, 1),
            labels[:, 1:].flatten(),
            label_smoothing=self.smoothing if model.training else 0.0,
        )
        return (loss, outputs) if return_outputs else loss


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        parts = [f"{k} {float(logs[k]):.3f}" for k in ("loss", "eval_loss", "grad_norm") if k in logs]
        if parts:
            print(f"step {state.global_step}:", "  ".join(parts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()

    set_seed(40)
    config = GPT2Config(
        vocab_size=NOTES,
        n_positions=LENGTH,
        n_embd=48,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = SmoothedTrainer(
            model=GPT2LMHeadModel(config),
            args=TrainingArguments(
                folder,
                num_train_epochs=args.epochs,
                per_device_train_batch_size=16,
                per_device_eval_batch_size=128,
                gradient_accumulation_steps=args.accumulate,
                learning_rate=3e-3,
                warmup_steps=20,
                max_grad_norm=5.0,
                eval_strategy="epoch",
                save_strategy="no",
                logging_steps=40,
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                seed=40,
                remove_unused_columns=False,
            ),
            data_collator=collate,
            train_dataset=Melodies(2560, seed=1),
            eval_dataset=Melodies(512, seed=2),
            callbacks=[Report()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
