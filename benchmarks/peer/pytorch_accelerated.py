"""pytorch-accelerated: its Trainer without callbacks."""

from collections.abc import Callable
from typing import Any

import pytorch_accelerated
from accelerate import Accelerator
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Job


class OnProcessor(pytorch_accelerated.Trainer):
    def _create_accelerator(self) -> Any:
        return Accelerator(cpu=True)


def prepare(job: Job) -> Callable[[], object]:
    trainer = OnProcessor(job.model, cross_entropy, job.optimizer(), callbacks=())
    loading = {"sampler": job.order, "num_workers": job.work.workers, "pin_memory": False, "drop_last": False}
    return lambda: trainer.train(job.dataset(), num_epochs=1, per_device_batch_size=job.batch, train_dataloader_kwargs=loading)
