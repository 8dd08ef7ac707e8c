"""Poutyne: a Model's fit_generator, without progress."""

from collections.abc import Callable

import poutyne
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Job

CANNOT = {
    "tokens": "weighs micro-batches by samples, not by tokens",
    "resume": "resumes at the start of an epoch",
    "checkpoint": "saves at the end of an epoch",
    "processes": "has none; only several devices in one process",
}


def prepare(job: Job) -> Callable[[], object]:
    model = poutyne.Model(job.model, job.optimizer(), cross_entropy)
    loader = job.loader()
    return lambda: model.fit_generator(loader, epochs=1, verbose=False)
