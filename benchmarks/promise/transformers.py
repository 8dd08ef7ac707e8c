"""The Trainer of transformers, with a constant learning rate and without clipping."""

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers.trainer_utils import get_last_checkpoint

from benchmarks.promise.task import CHECKPOINT_EVERY, SEED, Pair, Task, Trained

transformers.logging.set_verbosity_error()

ACCUMULATE = {
    "counted": "`gradient_accumulation_steps=`, and a `compute_loss_func` that divides by `num_items_in_batch`",
    "": "`gradient_accumulation_steps=`, the model's own loss",
}
WAYS = {
    "split": ACCUMULATE,
    "short cycle": ACCUMULATE,
    "observe": {"": '`eval_strategy="epoch"`'},
    "load": {"": "`dataloader_num_workers=2`"},
    "resume": {"": '`save_strategy="steps", save_steps=4`; `train(resume_from_checkpoint=…)`'},
}


class WithLoss(nn.Module):
    """Takes its batch by name and gives its loss; a `compute_loss_func` gets the labels instead."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.net(x)
        return {"logits": logits} if labels is None else {"loss": cross_entropy(logits, labels), "logits": logits}


def counted_loss(outputs: dict[str, Tensor], labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    if num_items_in_batch is None:
        return cross_entropy(outputs["logits"], labels)
    summed = cross_entropy(outputs["logits"], labels, reduction="sum")
    return torch.div(summed, num_items_in_batch)


def collate(samples: list[Pair]) -> dict[str, Tensor]:
    return {"x": torch.stack([x for x, _ in samples]), "labels": torch.stack([y for _, y in samples])}


def train(task: Task) -> Trained:
    transformers.set_seed(SEED)
    net = task.model()
    folder = task.folder / "run" if task.folder else None
    saving: dict[str, Any] = {"save_strategy": "steps", "save_steps": CHECKPOINT_EVERY} if folder else {"save_strategy": "no"}
    arguments = transformers.TrainingArguments(
        output_dir=str(folder) if folder else None,
        num_train_epochs=task.epochs,
        per_device_train_batch_size=task.batch,
        gradient_accumulation_steps=task.cycle,
        train_sampling_strategy="random" if task.random else "sequential",
        dataloader_num_workers=task.workers,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        max_grad_norm=0.0,
        eval_strategy="epoch" if task.validated else "no",
        seed=SEED,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        **saving,
    )
    optimizer = task.optimizer(net)
    trainer = transformers.Trainer(
        WithLoss(net),
        arguments,
        collate,
        train_dataset=task.train_data(),
        eval_dataset=task.valid_data(),
        compute_loss_func=counted_loss if task.way == "counted" else None,
        optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    last = get_last_checkpoint(str(folder)) if folder and folder.exists() else None
    trainer.train(resume_from_checkpoint=last)
    return Trained.of(net)
