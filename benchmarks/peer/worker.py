"""One process of one contestant: it stays alive and makes one measurement for each line that it reads.

    python -m benchmarks.peer.worker CONTESTANT FOLDER          a JSON request a line in, a JSON answer a line out
    python -m benchmarks.peer.worker CONTESTANT FOLDER REQUEST  a single measurement, then the end

A library's own output goes to stderr. Importing the library is part of the process's start.
"""

import gc
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.peer.work import WORKS, Data, Job, Marked, Work, final_loss


def main() -> None:
    contestant, folder, *requests = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(contestant, Path(folder))
    if requests:
        worker.answer(requests[0], answers)
        return
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        worker.answer(line, answers)


class Worker:
    """A contestant and the data of the work that it did last."""

    def __init__(self, contestant: str, folder: Path) -> None:
        self._module = importlib.import_module(f"benchmarks.peer.{CONTESTANTS[contestant].module}")
        self._folder = folder
        self._data: tuple[Work | None, Data | None, list[int]] = (None, None, [])
        self._rank = int(os.environ.get("RANK", "0"))

    def answer(self, line: str, answers: TextIO) -> None:
        request = json.loads(line)
        try:
            answer = self.measure(**request)
        except Exception as error:
            import traceback

            traceback.print_exc()
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)

    def measure(self, work: str, quick: bool, threads: int, weights: str | None) -> dict[str, Any]:
        """Seconds to construct and to train, processor seconds, losses before and after."""
        row = WORKS[work].quick() if quick else WORKS[work]
        torch.set_num_threads(threads)
        job = self._job(work, row)
        before = final_loss(job.model, job.data)
        gc.collect()
        clock = [(time.perf_counter(), time.process_time())]
        train = self._module.prepare(job)
        if dist.is_initialized():
            dist.barrier()
        clock.append((time.perf_counter(), time.process_time()))
        train()
        clock.append((time.perf_counter(), time.process_time()))
        if weights is not None and self._rank == 0:
            np.save(weights, torch.cat([p.detach().flatten() for p in job.model.parameters()]).numpy())
        return {
            "construct_s": clock[1][0] - clock[0][0],
            "train_s": seconds_of_checkpoint(job) if row.kind == "checkpoint" else clock[2][0] - clock[1][0],
            "processor_s": clock[2][1] - clock[1][1],
            "loss_before": before,
            "loss_after": final_loss(job.model, job.data),
        }

    def prepared(self, name: str, work: Work) -> Callable[[], object]:
        """A fit that waits for its call."""
        train: Callable[[], object] = self._module.prepare(self._job(name, work))
        return train

    def _job(self, name: str, work: Work) -> Job:
        if self._data[0] is None or (self._data[0].samples, self._data[0].data) != (work.samples, work.data):
            self._data = (None, None, [])  # first gone, then made: two of 10⁷ samples need not fit
            self._data = (work, work.data(work.samples), [] if work.kind == "resume" else self._order(work.samples))
        data = self._data[1]
        assert data is not None
        torch.manual_seed(0)
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return Job(work, work.model(), data, self._data[2], folder, self._rank)

    def _order(self, samples: int) -> list[int]:
        """In a process of its own it lies ready: there, nobody but Instep is to import Instep."""
        ready = self._folder / f"order-{samples}.npy"
        if ready.exists():
            return list(np.load(ready).tolist())
        from instep.data import Order

        return list(Order(samples, seed=0, epoch=0)[:].tolist())


def seconds_of_checkpoint(job: Job) -> float:
    """How much longer the updates from the second checkpoint to the third take than so many do: stall, and what writing takes.

    (The first one is not like the others: whoever copies takes fresh memory for it.)
    """
    assert isinstance(job.model, Marked)
    marks, every = job.model.marks[-job.updates :], job.work.start
    assert len(marks) == 3 * every, f"{len(marks)} forwards, not {3 * every}"
    written = sum(path.stat().st_size for path in job.folder.rglob("*") if path.is_file())
    assert written >= 0.99 * job.model.checkpoint_bytes(), f"a checkpoint of {written / 1e6:.0f} MB: not all of the state"
    gaps = [later - earlier for earlier, later in pairwise(marks)]
    return sum(gaps[2 * every - 1 :]) - every * statistics.median(gaps[every // 10 :])


if __name__ == "__main__":
    main()
