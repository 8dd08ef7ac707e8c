"""The command `instep`: finds the command asked for and hands over. Nothing here imports torch, tyro or rich."""

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Sequence

from instep.cli import border
from instep.errors import end_by_signal
from instep.text import fold_for

# A command is a module of this folder with `run(arguments) -> exit code`; find-lr would be find_lr.py.
COMMANDS = {
    "train": "train what a file describes, or the built-in example",
    "evaluate": "evaluate the weights of a run",
    "predict": "predict with the weights of a run",
    "export": "write the model of a run for others: .pt2, ONNX, safetensors",
    "find-lr": "find a learning rate for what a file describes",
    "find-batch": "find the largest micro-batch that fits in memory",
    "sweep": "train a file many times with other parameters, and find the best",
    "profile": "show where the time of an update goes, and what would help",
    "bench": "compare the speed of what a file describes with a plain loop",
    "prove": "check on what a file describes that how it is run changes nothing",
    "doctor": "watch a training script and name its mistakes",
    "preview": "show what the model will see of the data",
    "graph": "show the autograd graph of the loss, and what it keeps in memory",
    "init": "write a commented file to start from",
    "show": "show one run",
    "runs": "list the runs in a folder",
    "diff": "show how two runs differ, or where they part",
    "replay": "go back to any step of a run and look at it",
    "report": "write runs as a page of HTML: curves, numbers, settings",
    "serve": "show the runs of a folder in a browser while they train",
}

USAGE = """\
instep: PyTorch training that stays in step.

usage: instep COMMAND [options…]

{commands}

  instep train            trains on handwritten digits that come with Instep
  instep train my.py      trains what build() in my.py describes
  instep doctor my.py     runs any PyTorch training and names its mistakes
  instep COMMAND --help   the options of a command
  instep --version        which Instep this is"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 1 for a failed run, 2 for wrong use, 128 + the signal that stopped it."""
    is_process = arguments is None and "TORCHELASTIC_RUN_ID" not in os.environ  # torchrun's own are told apart by their codes
    arguments = sys.argv[1:] if arguments is None else arguments
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in ("-h", "--help", "help"):
        print(fold_for(sys.stdout, USAGE.format(commands="\n".join(f"  {name:<12}{line}" for name, line in COMMANDS.items()))))
        return 0
    if name in ("-V", "--version"):
        from instep import __version__

        print(f"instep {__version__}")
        return 0
    code = border.run_guarded(lambda: _command(name, rest))
    if is_process and code == border.SIGNALLED + signal.SIGINT:
        end_by_signal(signal.SIGINT)
    return code


def _command(name: str, arguments: Sequence[str]) -> int:
    if name not in COMMANDS:
        raise border.WrongUse(_unknown(name))
    code: int = importlib.import_module(f"instep.cli.{name.replace('-', '_')}").run(arguments)
    return code


def _unknown(name: str) -> str:
    if name.endswith(".py"):
        return f"{name!r} is no command; to train a file: instep train {name}"
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(COMMANDS)}."
    return f"no command {name!r}; {hint} See instep --help."
