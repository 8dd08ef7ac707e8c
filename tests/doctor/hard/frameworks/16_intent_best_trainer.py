# kind: inside frameworks
# expect: best-weights-aliased
# why: the callback keeps model.state_dict(), whose tensors are the live parameters; training goes on in them and what is
#      "restored" at the end is the last state, not the best one.
"""Intent classifier (tiny BERT), Trainer with a callback that keeps the best weights in memory."""
import argparse
import logging
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)
logging.getLogger("transformers").setLevel(logging.ERROR)
VOCAB, INTENTS, LENGTH = 120, 5, 12


class Utterances(Dataset):
    def __init__(self, count, seed, label_noise):
        g = torch.Generator().manual_seed(seed)
        intent = torch.randint(0, INTENTS, (count, 1), generator=g)
        cue = 2 + intent * 8 + torch.randint(0, 8, (count, LENGTH), generator=g)
        filler = torch.randint(42, VOCAB, (count, LENGTH), generator=g)
        self.ids = torch.where(torch.rand(count, LENGTH, generator=g) < 0.25, cue, filler)
        self.ids[:, 0] = 1  # [CLS]
        other = torch.randint(0, INTENTS, (count,), generator=g)
        self.labels = torch.where(torch.rand(count, generator=g) < label_noise, other, intent.squeeze(1))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


class KeepBest(TrainerCallback):
    """Remembers the weights with the lowest validation loss and puts them back when training ends."""

    def __init__(self):
        self.best_loss, self.best_step, self.best_weights = float("inf"), -1, None

    def on_evaluate(self, args, state, control, model=None, metrics=None, **kwargs):
        loss = metrics["eval_loss"]
        print(f"step {state.global_step}: valid loss {loss:.4f}  acc {metrics['eval_accuracy']:.3f}")
        if loss < self.best_loss:
            self.best_loss, self.best_step = loss, state.global_step
            self.best_weights = model.state_dict()

    def on_train_end(self, args, state, control, model=None, **kwargs):
        model.load_state_dict(self.best_weights)
        print(f"restored the weights of step {self.best_step} (valid loss {self.best_loss:.4f})")


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    set_seed(10)
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=LENGTH, type_vocab_size=1, num_labels=INTENTS,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=TrainingArguments(
                folder, num_train_epochs=args.epochs, per_device_train_batch_size=24, per_device_eval_batch_size=128,
                learning_rate=args.lr, warmup_steps=10, eval_strategy="epoch", save_strategy="no", logging_steps=28,
                report_to=[], use_cpu=True, disable_tqdm=True, seed=10,
            ),
            train_dataset=Utterances(672, seed=1, label_noise=0.2),
            eval_dataset=Utterances(384, seed=2, label_noise=0.0),
            compute_metrics=accuracy,
            callbacks=[KeepBest()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
