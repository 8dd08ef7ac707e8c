"""`instep serve`: what it refuses. What it shows is in tests/report/live."""

import builtins
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from cli.said import Instep


def test_a_folder_that_is_none_is_said(instep: Instep) -> None:
    said = instep("serve", "nowhere")
    assert (said.code, said.err) == (
        2,
        "instep: nowhere is not a folder; name the one that the runs are in: instep serve FOLDER\n",
    )


def test_what_is_not_installed_is_said(instep: Instep, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    Path("runs").mkdir()
    said = instep("serve")
    assert said.code == 2
    packages = '"starlette>=0.46" "uvicorn>=0.34"'
    assert said.err == f"instep: instep serve needs uvicorn, which is not installed; type: pip install {packages}\n"


def test_a_port_that_is_taken_is_said(instep: Instep) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: instep serve was not tried")
    Path("runs").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = instep("serve", "--port", str(port))
    assert said.code == 2
    assert said.err.startswith(f"instep: cannot listen at 127.0.0.1 port {port}: Address already in use")
    assert "--port 0 for a free one" in said.err


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_serves_until_it_is_stopped(host: str) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: instep serve was not tried")
    Path("runs/a").mkdir(parents=True)
    Path("runs/a/run.json").write_text("{}")
    command = [sys.executable, "-m", "instep", "serve", "--port", "0", "--host", host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = re.fullmatch(r"serving runs at http://(\S+?):(\d+)/(\S*)  \(Ctrl-C stops\)\n", server.stdout.readline())
            assert said is not None
            assert said[1] == host
            assert said[3].startswith("?token=") == (host != "127.0.0.1")
            address = f"http://127.0.0.1:{said[2]}/"
            if said[3]:
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    urllib.request.urlopen(address)
            with urllib.request.urlopen(f"{address}{said[3]}") as answer:
                assert b'"name":"a"' in answer.read()
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(timeout=300) == 0
