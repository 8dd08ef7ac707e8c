"""Ctrl-C and SIGTERM as shells and schedulers send them: to every process of a group, and with a look at how it died."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

RUN = """
    import sys, time, torch
    from torch import nn
    from instep import Trainer

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 100_000
        def __getitem__(self, index):
            time.sleep(0.03)
            return torch.zeros(2), 0

    def loss(output, target):
        return nn.functional.cross_entropy(output, target)

    def build(workers: int = 0):
        model = nn.Linear(2, 2)
        return Trainer(model, loss=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1), train=Slow(),
                       batch_size=4, epochs=1, log_every=2, num_workers=workers, folder="run", progress=False)

    if __name__ == "__main__":
        import atexit
        atexit.register(print, "cleaned up", flush=True)
        build(int(sys.argv[1])).fit()
"""
COMMAND = f"{sys.executable} -c 'import sys; from instep.cli import main; sys.exit(main())' train script.py --no-progress"


def start(folder: Path, command: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(textwrap.dedent(RUN))
    return subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # a background job ignores it
    )


def interrupt(started: subprocess.Popen[str], folder: Path, number: int) -> tuple[str, str]:
    """Send a signal to the whole group once updates are being made; what was said on stdout and stderr."""
    history = folder / "run/history.jsonl"
    deadline = time.monotonic() + 300
    while not (history.exists() and history.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(started.pid, number)
    return started.communicate(timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("command", [f"{sys.executable} script.py 0", COMMAND])
def test_ctrl_c_ends_the_loop_of_a_shell(tmp_path: Path, command: str) -> None:
    started = start(tmp_path, f"for i in 1 2; do {command}; echo code $?; done; echo after")
    said, errors = interrupt(started, tmp_path, signal.SIGINT)
    assert "after" not in said.split()
    assert said.count("code") <= 1
    assert "stopped by Ctrl-C after" in errors
    assert started.returncode in (-signal.SIGINT, 130)
    if "script.py 0" in command:
        assert "cleaned up" in said
    assert json.loads((tmp_path / "run/run.json").read_text())["status"]["state"] == "interrupted"


@pytest.mark.slow
def test_sigterm_to_a_group_with_workers_stops_the_run_like_any_other(tmp_path: Path) -> None:
    started = start(tmp_path, f"exec {sys.executable} script.py 2")
    _, errors = interrupt(started, tmp_path, signal.SIGTERM)
    assert "stopped by SIGTERM after" in errors
    assert "worker" not in errors
    assert started.returncode == -signal.SIGTERM
    assert json.loads((tmp_path / "run/run.json").read_text())["status"]["state"] == "interrupted"


def test_an_error_that_is_caught_leaves_the_process_alone(tmp_path: Path) -> None:
    code = """
        import signal
        from instep.errors import Interrupted, die_if_uncaught
        try:
            raise die_if_uncaught(Interrupted(signal.SIGINT, 3))
        except KeyboardInterrupt:
            print("caught")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "caught\n")


def test_an_error_that_nobody_catches_is_shown_and_ends_the_process_by_its_signal() -> None:
    code = "import signal; from instep.errors import *; raise die_if_uncaught(Interrupted(signal.SIGTERM, 3))"
    code = code.replace("import *", "import Interrupted, die_if_uncaught")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGTERM
    assert "stopped by SIGTERM after 3 updates" in done.stderr
