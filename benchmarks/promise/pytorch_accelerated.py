"""pytorch-accelerated: its Trainer."""

from typing import Any

import pytorch_accelerated
from accelerate import Accelerator
from accelerate.utils import set_seed
from pytorch_accelerated.callbacks import SaveTrainingStateCallback
from torch.nn.functional import cross_entropy

from benchmarks.promise.task import SEED, Task, Trained

SAVED = "`SaveTrainingStateCallback(save_every_n_epochs=1)`; `train(resume_from=…)` for {}"
WAYS = {
    "split": {"": "`gradient_accumulation_steps=4`"},
    "short cycle": {"": "`gradient_accumulation_steps=3`"},
    "observe": {"": "`eval_dataset=`"},
    "load": {"": "`train_dataloader_kwargs={'num_workers': 2}`"},
    "resume": {
        "": SAVED.format("the epoch that is left"),
        "documented": SAVED.format("all epochs, as its documentation shows"),
    },
}


class OnProcessor(pytorch_accelerated.Trainer):
    def _create_accelerator(self) -> Any:
        return Accelerator(cpu=True)


def train(task: Task) -> Trained:
    set_seed(SEED)
    model = task.model()
    saving = SaveTrainingStateCallback(str(task.folder), save_every_n_epochs=1, save_at_end=False)
    callbacks = [saving] if task.folder else []
    saved = sorted(task.folder.glob("epoch_*")) if task.folder else []
    trainer = OnProcessor(model, cross_entropy, task.optimizer(model), callbacks=callbacks)
    trainer.train(
        task.train_data(),
        num_epochs=1 if saved and task.way != "documented" else task.epochs,
        eval_dataset=task.valid_data() if task.validated else None,
        per_device_batch_size=task.batch,
        gradient_accumulation_steps=task.cycle,
        train_dataloader_kwargs={"shuffle": task.random, "num_workers": task.workers},
        eval_dataloader_kwargs={"num_workers": 0},
        resume_from=str(saved[-1]) if saved else None,
    )
    return Trained.of(model)
