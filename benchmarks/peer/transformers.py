"""The Trainer of transformers: without logging, saving, clipping and progress; a constant learning rate."""

import json
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Data, Job

transformers.logging.set_verbosity_error()


class WithLoss(nn.Module):
    """The Trainer gives a model its batch by name and takes its loss; without labels, it gives logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.model(x)
        return {"logits": logits} if labels is None else {"loss": cross_entropy(logits, labels)}


def token_loss(outputs: dict[str, Tensor], labels: Tensor, num_items_in_batch: Tensor) -> Tensor:
    """The Trainer counts the tokens of all micro-batches, those that are ignored left out."""
    return cross_entropy(outputs["logits"], labels, reduction="sum") / num_items_in_batch


class InOrder(transformers.Trainer):
    """With the order of the benchmark."""

    job: Job

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return self.job.order or super()._get_train_sampler(train_dataset)


def collate(samples: list[Data]) -> dict[str, Tensor]:
    return {"x": torch.stack([x for x, _ in samples]), "labels": torch.stack([y for _, y in samples])}


def build(job: Job, callbacks: Any = None, **other: Any) -> InOrder:
    arguments = transformers.TrainingArguments(
        output_dir=str(job.folder),
        num_train_epochs=1,
        per_device_train_batch_size=job.batch // job.work.pieces,
        gradient_accumulation_steps=job.work.pieces,
        dataloader_num_workers=job.work.workers,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        max_grad_norm=0.0,
        ddp_find_unused_parameters=False,
        logging_strategy="no",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        **{"save_strategy": "no", **other},
    )
    optimizer = job.optimizer()
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    trainer = InOrder(
        WithLoss(job.model),
        arguments,
        collate,
        train_dataset=job.dataset(),
        compute_loss_func=token_loss if job.work.kind == "tokens" else None,
        optimizers=(optimizer, constant),
        callbacks=callbacks,
    )
    trainer.job = job
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def prepare(job: Job) -> Callable[[], object]:
    if job.work.kind == "resume":
        return prepare_resume(job)
    if job.work.kind == "checkpoint":
        trainer = build(job, save_strategy="steps", save_steps=job.work.start, save_total_limit=1)
    else:
        trainer = build(job)
    train: Callable[[], object] = trainer.train
    return train


class Stop(transformers.TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **other: Any) -> None:
        control.should_training_stop = True


def prepare_resume(job: Job) -> Callable[[], object]:
    """A checkpoint of the first update, whose count is then set to the middle of the epoch."""
    left = job.folder / "checkpoint-1"
    if not left.exists():
        build(job, callbacks=[Stop()], save_strategy="steps", save_steps=1).train()
    state = left / "trainer_state.json"
    counters = json.loads(state.read_text())
    counters["global_step"] = job.work.start
    state.write_text(json.dumps(counters))

    def resume() -> None:
        trainer = build(job, callbacks=[Stop()])
        trainer.train(resume_from_checkpoint=str(left))
        assert trainer.state.global_step == job.work.start + 1

    return resume
