# kind: inside frameworks
# expect: future-leaks
# why: BertLMHeadModel shifts the labels for next-token prediction, but the config is not is_decoder=True, so attention is
#      bidirectional and every position reads the note it has to predict.
import tempfile

import numpy as np
import torch
import transformers
from torch.utils.data import Dataset
from transformers import BertConfig, BertLMHeadModel, Trainer, TrainerCallback, TrainingArguments

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

SPECIAL = {"<pad>": 0, "<start>": 1}
PITCHES = 24
LENGTH = 32
REGISTRY = {}


def register(name):
    def wrap(fn):
        REGISTRY[name] = fn
        return fn
    return wrap


@register("markov")
def markov_melodies(n, seed):
    """Second-order random walks over a scale; the next note depends on the two before it."""
    rng = np.random.default_rng(seed)
    table = np.random.default_rng(123).dirichlet(np.full(PITCHES, 0.15), size=(PITCHES, PITCHES))
    tunes = np.zeros((n, LENGTH), dtype=np.int64)
    tunes[:, :2] = rng.integers(0, PITCHES, (n, 2))
    for t in range(2, LENGTH):
        cdf = table[tunes[:, t - 2], tunes[:, t - 1]].cumsum(-1)
        tunes[:, t] = (rng.random((n, 1)) > cdf).sum(-1).clip(0, PITCHES - 1)
    return tunes


class MelodyDataset(Dataset):
    def __init__(self, kind, n, seed):
        notes = torch.from_numpy(REGISTRY[kind](n, seed)) + len(SPECIAL)
        start = torch.full((n, 1), SPECIAL["<start>"])
        self.ids = torch.cat([start, notes], dim=1)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i]}


def lm_collator(rows):
    ids = torch.stack([r["input_ids"] for r in rows])
    labels = ids.clone()
    labels[:, 0] = -100
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        for key in ("loss", "eval_loss"):
            if key in logs:
                print(f"step {state.global_step:4d} {key} {float(logs[key]):.4f} "
                      f"perplexity {np.exp(min(float(logs[key]), 20)):.2f}")


def build_model():
    config = BertConfig(
        vocab_size=PITCHES + len(SPECIAL),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=LENGTH + 1,
        type_vocab_size=1,
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.05,
        pad_token_id=SPECIAL["<pad>"],
        bos_token_id=SPECIAL["<start>"],
        use_cache=False,
    )
    return BertLMHeadModel(config)


def main():
    transformers.set_seed(90)
    model = build_model()
    with tempfile.TemporaryDirectory() as tmp:
        args = TrainingArguments(
            output_dir=tmp, max_steps=220, per_device_train_batch_size=32, per_device_eval_batch_size=100,
            learning_rate=2e-3, warmup_steps=20, lr_scheduler_type="linear", weight_decay=0.01, max_grad_norm=1.0,
            eval_strategy="steps", eval_steps=55, logging_steps=20, save_strategy="no", report_to="none",
            disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False, seed=90)
        Trainer(model=model, args=args, train_dataset=MelodyDataset("markov", 1600, 5),
                eval_dataset=MelodyDataset("markov", 300, 6), data_collator=lm_collator,
                callbacks=[Report()]).train()


if __name__ == "__main__":
    main()
