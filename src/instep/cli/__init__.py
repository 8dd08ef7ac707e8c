"""The command `instep`: finds the command asked for and hands over. Nothing here imports torch."""

import sys
from collections.abc import Sequence

USAGE = """\
instep: PyTorch training that stays in step.

usage: instep [--help] [--version]

Training from the command line is not there yet; the pieces are: see `examples/update_cycle.py`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if arguments[0] == "--version":
        from instep import __version__

        print(f"instep {__version__}")
        return 0
    print(f"instep: no command {arguments[0]!r}; see instep --help", file=sys.stderr)
    return 2
