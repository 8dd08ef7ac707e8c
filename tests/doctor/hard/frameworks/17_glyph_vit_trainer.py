# kind: inside frameworks
# expect: nothing
# like: trained-in-eval-mode
# why: the probe callback sets model.eval() and does not set it back, but Trainer.training_step calls model.train() before
#      every forward, so training always has dropout on.
"""Glyph recognition with a tiny ViT; a callback probes a fixed batch while Trainer runs."""
import argparse
import logging
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

torch.set_num_threads(1)
logging.getLogger("transformers").setLevel(logging.ERROR)
CLASSES, SIZE = 6, 16


class Glyphs(Dataset):
    def __init__(self, count, seed):
        shapes = (torch.rand(CLASSES, 8, 8, generator=torch.Generator().manual_seed(77)) < 0.4).float()
        shapes = shapes.repeat_interleave(2, 1).repeat_interleave(2, 2)
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, CLASSES, (count,), generator=g)
        moves = torch.randint(-1, 2, (count, 2), generator=g)
        pictures = [torch.roll(shapes[c], (int(a), int(b)), (0, 1)) for c, (a, b) in zip(self.labels, moves)]
        pixels = torch.stack(pictures) - 0.4 + 0.5 * torch.randn(count, SIZE, SIZE, generator=g)
        self.pixels = (pixels / 0.7).unsqueeze(1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"pixel_values": self.pixels[i], "labels": self.labels[i]}


class Probe(TrainerCallback):
    """Accuracy on a few held-out glyphs every `every` steps."""

    def __init__(self, dataset, every=30, count=128):
        self.every = every
        self.pixels, self.labels = dataset.pixels[:count], dataset.labels[:count]

    @torch.no_grad()
    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % self.every:
            return
        model.eval()
        logits = model(pixel_values=self.pixels).logits
        hits = (logits.argmax(-1) == self.labels).float().mean().item()
        print(f"step {state.global_step}: probe accuracy {hits:.3f}")

    def on_log(self, args, state, control, logs=None, **kwargs):
        for key in ("loss", "eval_loss"):
            if key in logs:
                print(f"step {state.global_step}: {key} {float(logs[key]):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    set_seed(33)
    config = ViTConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=SIZE, patch_size=4,
        num_channels=1, num_labels=CLASSES, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1,
    )
    valid = Glyphs(512, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=ViTForImageClassification(config),
            args=TrainingArguments(
                folder, num_train_epochs=args.epochs, per_device_train_batch_size=32, per_device_eval_batch_size=128,
                learning_rate=args.lr, warmup_steps=20, weight_decay=0.01, eval_strategy="epoch", save_strategy="no",
                logging_steps=50, report_to=[], use_cpu=True, disable_tqdm=True, seed=33,
            ),
            train_dataset=Glyphs(1920, seed=1),
            eval_dataset=valid,
            callbacks=[Probe(valid)],
        )
        trainer.train()


if __name__ == "__main__":
    main()
