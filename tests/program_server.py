"""A process that imports torch once, and forks a child for each program that a test starts: importing costs more than most.

    python tests/program_server.py FD

FD is a socket that listens; `programs.py` says there what to start. torch is imported when the first one asks, and all ends when
the standard input does. It has no thread when it forks.

A child runs its program as `python` does, to the end of the interpreter: `__main__`, arguments, paths, environment, standard
streams, warnings and signals are its own, in a session of its own. Two things differ: torch is there already, with what a first
optimizer imports, and its hashes are those of PYTHONHASHSEED=0. What is about either needs a process of its own.
"""

import gc
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
import warnings
from types import ModuleType
from typing import Any

STARTUP = list(warnings.filters)  # before torch adds its own


class Server:
    """The programs that run, each with the connection that waits for its end."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._running: dict[int, socket.socket] = {}
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def serve(self) -> dict[str, Any] | None:
        """Start what is asked for; in a child, returns what it has to do, and at the end of the input None."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        while True:
            watched: list[Any] = [0, self._listening, self._woken, *self._running.values()]
            ready, _, _ = select.select(watched, [], [])
            if 0 in ready:
                break
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._answer()
            for pid, connection in self._running.items():
                if connection in ready:  # closed: nobody waits any more
                    _kill(pid)
            if self._listening in ready and (request := self._start()) is not None:
                return request
        for pid in self._running:
            _kill(pid)
        return None

    def _start(self) -> dict[str, Any] | None:
        """Fork; what the child has to do, in the child."""
        connection = self._listening.accept()[0]
        text, fds, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        while not text.endswith(b"\n"):
            text += connection.recv(1 << 16)
        _import_torch()
        pid = os.fork()
        if pid:
            self._running[pid] = connection
            connection.sendall(f"{pid}\n".encode())
            for fd in fds:
                os.close(fd)
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for place, fd in enumerate(fds):
            os.dup2(fd, place)
        os.closerange(3, 1 << 10)
        for one in (self._listening, connection, *self._running.values()):
            one.detach()  # the numbers may be another's by the time this object goes
        request: dict[str, Any] = json.loads(text)
        return request

    def _answer(self) -> None:
        for pid in list(self._running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                with self._running.pop(pid) as connection:
                    _send(connection, f"{os.waitstatus_to_exitcode(status)}\n")


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has not come to open its session, or has ended
        os.kill(pid, signal.SIGKILL)


def _send(connection: socket.socket, text: str) -> None:
    try:
        connection.sendall(text.encode())
    except OSError:  # closed
        return


def _import_torch() -> None:
    if "torch" in sys.modules:
        return
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()  # imports a second's worth of modules that any optimizer needs
    gc.collect()
    gc.freeze()  # else the first collection in a child copies all that was imported


def become(request: dict[str, Any]) -> list[str]:
    """Take over folder, environment and warnings; returns what to run."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    arguments: list[str] = request["arguments"]
    wanted = [text for text in os.environ.get("PYTHONWARNINGS", "").split(",") if text]
    while arguments[0] == "-W":
        wanted, arguments = [*wanted, arguments[1]], arguments[2:]
    _warn_as(wanted)
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return arguments


def _warn_as(actions: list[str]) -> None:
    """Where Python puts what it was started with: behind the filters of torch, before those of its own start."""
    filters: Any = warnings.filters
    later = filters[: len(filters) - len(STARTUP)]
    filters[:] = [*later, *((action, None, Warning, None, 0) for action in reversed(actions)), *STARTUP]
    warnings.simplefilter("default", append=True)  # has what was remembered of the filters looked up again


def execute(arguments: list[str]) -> None:
    """As `python arguments…` does it."""
    first, *rest = arguments
    if first == "-m":
        sys.argv = [*rest]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main)["__builtins__"] = __builtins__
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
        return
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.realpath(first)))
    main.__file__ = os.path.abspath(first)
    with open(first, "rb") as file:
        code = compile(file.read(), main.__file__, "exec")
    exec(code, vars(main))


if __name__ == "__main__":
    del sys.path[0]  # where this file lies
    asked = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    if asked is not None:
        execute(become(asked))
