"""Programs that tests start and that need no process of their own from the first line on: forked where torch is imported already.

`programs.run([…])` is `subprocess.run([sys.executable, …])` for those, and `programs.start([…])` its `Popen`. One process serves
all workers of pytest-xdist; see `program_server.py` for what differs.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

PIPE = subprocess.PIPE
SERVER = Path(__file__).with_name("program_server.py")


class Program:
    """One that was started; where it still runs at the end of the `with`, it is killed."""

    def __init__(self, connection: socket.socket, streams: dict[str, IO[str]]) -> None:
        self.stdin, self.stdout = streams.get("stdin"), streams.get("stdout")
        self._connection, self._answers = connection, connection.makefile()
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def wait(self) -> int:
        """Its exit code."""
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
        return self.returncode

    def close(self) -> None:
        for one in (self.stdin, self.stdout, self._answers, self._connection):
            if one is not None:
                one.close()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Programs:
    """Starts them, by way of the process that listens at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> Program:
        """As Popen does, in a new session. A stream is the number of a file, nothing, or PIPE (not stderr)."""
        environment = dict(os.environ if env is None else env)
        request = {"folder": str(cwd or Path.cwd()), "environment": environment, "arguments": list(arguments)}
        theirs: list[int] = []
        mine: dict[str, IO[str]] = {}
        if stdin == PIPE:
            stdin, end = os.pipe()
            theirs, mine = [*theirs, stdin], {**mine, "stdin": os.fdopen(end, "w")}
        if stdout == PIPE:
            end, stdout = os.pipe()
            theirs, mine = [*theirs, stdout], {**mine, "stdout": os.fdopen(end)}
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        with open(os.devnull, "r+b") as nothing:
            fds = [nothing.fileno() if fd is None else fd for fd in (stdin, stdout, stderr)]
            socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], fds)
        program = Program(connection, mine)
        for fd in theirs:
            os.close(fd)
        return program

    def run(
        self, arguments: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, check: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        """To its end, with all that it said."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with self.start(arguments, cwd=cwd, env=env, stdout=out.fileno(), stderr=err.fileno()) as program:
                code = program.wait()
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read())
        done = subprocess.CompletedProcess([*arguments], code, *said)
        assert not check or code == 0, done.stderr
        return done


def pytest_configure(config: pytest.Config) -> None:
    """One process for all: a worker is told where it listens."""
    given = getattr(config, "workerinput", {}).get("programs")
    config.option.programs = given or _begin(config)


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is
def pytest_configure_node(node: Any) -> None:
    node.workerinput["programs"] = node.config.option.programs


def _begin(config: pytest.Config) -> str:
    folder = tempfile.mkdtemp()
    address = f"{folder}/socket"
    unwanted = ("PYTHONPATH", "PYTHONWARNINGS")  # those of a program are its own
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        number = listening.fileno()
        server = subprocess.Popen(
            [sys.executable, str(SERVER), str(number)],
            stdin=PIPE,
            stdout=subprocess.DEVNULL,
            env=environment | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            pass_fds=[number],
        )

    def end() -> None:
        server.communicate()  # closes its input, and waits
        shutil.rmtree(folder)

    config.add_cleanup(end)
    return address


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Programs:
    """Starts programs where torch is imported already."""
    return Programs(pytestconfig.option.programs)
