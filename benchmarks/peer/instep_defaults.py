"""Instep's Trainer with what a run has by default: folder, history, progress, checkpoints."""

from collections.abc import Callable

from benchmarks.peer.instep import build, new_folder
from benchmarks.peer.work import Job


def prepare(job: Job) -> Callable[[], object]:
    folder = new_folder(job) if job.rank == 0 else job.folder / "runs" / "run"
    return build(job, folder=folder, progress=True).fit
