"""Instep's Trainer: lean, that is without a folder and without progress where the work needs none."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Job
from instep import Trainer


def build(job: Job, **other: Any) -> Trainer:
    return Trainer(
        job.model,
        loss=cross_entropy,
        optimizer=job.optimizer(),
        train=job.dataset() if job.work.workers else job.data,
        epochs=job.work.epochs,
        batch_size=job.work.batch,
        update_cycle=job.work.pieces,
        num_workers=job.work.workers,
        **{"progress": False, **other},
    )


def prepare(job: Job) -> Callable[[], object]:
    if job.work.kind == "resume":
        return prepare_resume(job)
    if job.work.kind == "checkpoint":
        return build(job, folder=new_folder(job), checkpoint_every=job.work.start, keep=1).fit
    return build(job).fit


def new_folder(job: Job) -> Path:
    """A folder for one run; the one before is deleted."""
    shutil.rmtree(job.folder / "runs", ignore_errors=True)
    (job.folder / "runs").mkdir()
    return Path(tempfile.mkdtemp(dir=job.folder / "runs")) / "run"


def prepare_resume(job: Job) -> Callable[[], object]:
    """A run that was left inside its epoch, copied: each measurement resumes the same one."""
    left = job.folder / f"left-{job.work.start}"
    if not left.exists():
        for update in build(job, folder=left).updates():
            if update.step + 1 == job.work.start:
                break
    folder = new_folder(job)
    shutil.copytree(left, folder)

    def resume() -> None:
        trainer = build(job, folder=folder)
        update = next(iter(trainer.updates()))
        assert update.step == job.work.start, f"resumed at step {update.step}, not {job.work.start}"

    return resume
