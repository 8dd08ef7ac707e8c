"""`instep serve [FOLDER]`: the runs of a folder in a browser, live. It only reads."""

import contextlib
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli.border import WrongUse
from instep.cli.options import parse
from instep.extras import install_command

LOCAL = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ServeOptions:
    """Show the runs of a folder in a browser while they train: a list, and one or several as a page. Nothing can be changed."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path("runs")
    """The folder that the runs are in, at any depth."""
    host: Annotated[str, tyro.conf.arg(metavar="ADDRESS")] = "127.0.0.1"
    """Where to listen. For another address than that of this machine alone, a token is made that every visitor needs."""
    port: Annotated[int, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 8000; 0 takes a free one)")] = 8000
    """The port to listen at."""


def run(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C; returns the exit code."""
    asked = parse(ServeOptions, arguments, prog="instep serve")
    if not asked.folder.is_dir():
        raise WrongUse(f"{asked.folder} is not a folder; name the one that the runs are in: instep serve FOLDER")
    try:
        import uvicorn

        from instep.report.live.app import make_app
        from instep.report.live.index import Index
    except ModuleNotFoundError as error:
        raise WrongUse(f"instep serve needs {error.name}, which is not installed; type: {install_command('serve')}") from None
    import instep.run.options  # noqa: F401  # brings torch, for which the first visitor would wait

    token = None if asked.host in LOCAL else secrets.token_urlsafe(24)
    listening = _listen(asked.host, asked.port)
    where = f"http://{f'[{asked.host}]' if ':' in asked.host else asked.host}:{listening.getsockname()[1]}/"
    print(f"serving {asked.folder} at {where}{'' if token is None else f'?token={token}'}  (Ctrl-C stops)", flush=True)
    config = uvicorn.Config(
        make_app(Index(asked.folder), token), log_level="warning", access_log=False, timeout_graceful_shutdown=1
    )
    with listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise WrongUse(
            f"cannot listen at {host} port {port}: {said}; choose another with --port, or --port 0 for a free one."
        ) from None
