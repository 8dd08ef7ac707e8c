# kind: inside frameworks
# expect: nothing
# like: kl-on-probabilities
# why: compute_loss feeds log-softmax of student and of teacher to kl_div with log_target=True, which is right. The teacher
#      is another, frozen network kept on the Trainer, in eval mode and called under no_grad.
import argparse
import tempfile

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

torch.set_num_threads(1)

CLASSES, SIZE = 6, 16
PROTOTYPES = torch.randn(CLASSES, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
PROTOTYPES = F.avg_pool2d(PROTOTYPES.unsqueeze(1), 3, stride=1, padding=1)


class Glyphs(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(CLASSES, (n,), generator=g)
        shifts = torch.randint(-1, 2, (n, 2), generator=g).tolist()
        shifted = [torch.roll(PROTOTYPES[c], s, dims=(1, 2)) for c, s in zip(self.y, shifts)]
        x = torch.stack(shifted) + 0.25 * torch.randn(n, 1, SIZE, SIZE, generator=g)
        self.x = x / 0.42

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"pixel_values": self.x[i], "labels": self.y[i]}


def stack(rows):
    return {key: torch.stack([r[key] for r in rows]) for key in rows[0]}


def make_vit(width, depth, dropout):
    return ViTForImageClassification(ViTConfig(
        image_size=SIZE, patch_size=4, num_channels=1, hidden_size=width, num_hidden_layers=depth,
        num_attention_heads=4, intermediate_size=2 * width, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, num_labels=CLASSES))


class DistillationTrainer(Trainer):
    def __init__(self, *args, teacher, temperature, alpha, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher.eval().requires_grad_(False)
        self.temperature, self.alpha = temperature, alpha

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["labels"]
        outputs = model(pixel_values=inputs["pixel_values"])
        with torch.no_grad():
            teacher_logits = self.teacher(pixel_values=inputs["pixel_values"]).logits
        soft = F.kl_div(F.log_softmax(outputs.logits / self.temperature, dim=-1),
                        F.log_softmax(teacher_logits / self.temperature, dim=-1),
                        reduction="batchmean", log_target=True) * self.temperature ** 2
        hard = F.cross_entropy(outputs.logits, labels)
        loss = self.alpha * soft + (1 - self.alpha) * hard
        return (loss, {"loss": loss, "logits": outputs.logits}) if return_outputs else loss


def accuracy(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


def training_args(folder, opts, lr, epochs):
    return TrainingArguments(
        output_dir=folder, num_train_epochs=epochs, per_device_train_batch_size=opts.batch, seed=opts.seed,
        per_device_eval_batch_size=100, learning_rate=lr, warmup_steps=15, weight_decay=0.01, logging_steps=40,
        eval_strategy="epoch", save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
        dataloader_pin_memory=False, remove_unused_columns=False, label_names=["labels"])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--temperature", type=float, default=3.0)
    p.add_argument("--alpha", type=float, default=0.6)
    p.add_argument("--seed", type=int, default=13)
    opts = p.parse_args()
    set_seed(opts.seed)
    train, valid = Glyphs(1280, 100), Glyphs(300, 200)
    common = dict(train_dataset=train, eval_dataset=valid, data_collator=stack, compute_metrics=accuracy)
    with tempfile.TemporaryDirectory() as folder:
        teacher = make_vit(64, 3, dropout=0.1)
        Trainer(model=teacher, args=training_args(folder, opts, 1.5e-3, 3), **common).train()
        student = make_vit(32, 2, dropout=0.0)
        DistillationTrainer(model=student, args=training_args(folder, opts, 3e-3, 5), teacher=teacher,
                            temperature=opts.temperature, alpha=opts.alpha, **common).train()


if __name__ == "__main__":
    main()
