"""Poutyne: a Model's fit_generator, without progress."""

from collections.abc import Callable

import poutyne
from torch.nn.functional import cross_entropy

from benchmarks.peer.work import Job


def prepare(job: Job) -> Callable[[], object]:
    model = poutyne.Model(job.model, job.optimizer(), cross_entropy)
    loader = job.loader()
    return lambda: model.fit_generator(loader, epochs=1, verbose=False)
