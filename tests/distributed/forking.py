"""A process with torch and all that the runs import, which forks ranks of worlds: importing costs more than most runs.

    python -m distributed.forking < a JSON array a line: [{"environment", "said", "folder", "module", "arguments"}, …]

calls main() of the module in each of these ranks, writes their exit codes when all have ended, and ends when its input does.
It has no thread when it forks.
Two such processes, each with hash seeds of its own, make a world: no rank has the hashes of the next.
"""

import contextlib
import gc
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

# What DistributedDataParallel, shards and metrics import when they are first made.
MODULES = ("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor", "torchmetrics.classification")


class Forking:
    """One of them, from outside."""

    def __init__(self, environment: dict[str, str]) -> None:
        command, pipe = [sys.executable, "-m", "distributed.forking"], subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, start_new_session=True)

    def start(self, ranks: list[dict[str, Any]]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(ranks) + "\n")
        self._process.stdin.flush()

    def exit_codes(self, timeout_s: float) -> list[int]:
        """Those of the ranks; who does not end is killed, and has none."""
        assert self._process.stdout is not None
        late = threading.Timer(timeout_s, self.kill)
        late.start()
        line = self._process.stdout.readline()
        late.cancel()
        codes: list[int] = json.loads(line or "[]")
        return codes

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """What still runs is killed."""
        self.kill()
        self._process.communicate()  # closes the pipes


def fork(rank: dict[str, Any]) -> int:
    """The process id of a rank."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        said = os.open(rank["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        for fd in (1, 2):
            os.dup2(said, fd)
        os.environ.update(rank["environment"])
        random.seed()  # as in a process that was started
        sys.modules["numpy"].random.seed()
        os.chdir(rank["folder"])
        code = importlib.import_module(rank["module"]).main(rank["arguments"]) or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    for name in (*MODULES, "numpy", "distributed.process", "instep.cli"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else the first collection in a rank copies all that was imported
    for line in sys.stdin:
        pids = [fork(rank) for rank in json.loads(line)]
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]), flush=True)


if __name__ == "__main__":
    serve()
