"""Launch: torchrun underneath `instep train --processes`, started from this process."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import get_args_parser, run

from instep.errors import DescriptionError, PeerError

SIGNALLED = 128
_COMMAND = "import sys; from instep.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Launch:
    """How many processes, on how many machines, where they meet, and how often they are started again."""

    processes: int  # on this machine
    nodes: int | str = 1  # machines: a number, or "2:4" for from two to four
    rendezvous: str | None = None  # HOST:PORT of one of them, the same on all; None for this machine alone
    max_restarts: int = 0

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise DescriptionError(f"--processes {self.processes} must be a whole number, 1 or more.")
        if self.max_restarts < 0:
            raise DescriptionError(f"--max-restarts {self.max_restarts} must be a whole number, 0 or more.")
        if str(self.nodes) != "1" and self.rendezvous is None:
            raise DescriptionError(f"--nodes {self.nodes} needs --rendezvous HOST:PORT, a machine that all of them can reach.")

    def arguments(self) -> list[str]:
        """Those of torchrun."""
        told = ["--nproc-per-node", str(self.processes), "--nnodes", str(self.nodes), "--max-restarts", str(self.max_restarts)]
        if self.rendezvous is None:
            return [*told, "--standalone"]
        return [*told, "--rdzv-backend", "c10d", "--rdzv-endpoint", self.rendezvous, "--rdzv-id", "instep"]


def launched(launch: Launch, arguments: Sequence[str]) -> int:
    """Run `instep` with these arguments in every process; returns the exit code."""
    # -P: the folder that the command is called in must not come before Python's own modules.
    command = ["--no-python", sys.executable, "-P", "-c", _COMMAND, *arguments]
    try:
        run(get_args_parser().parse_args([*launch.arguments(), *command]))
    except SignalException as stop:
        return SIGNALLED + int(stop.sigval)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
        if code == 2 or code > SIGNALLED:
            return code  # it said why
        how = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
        more = " (--max-restarts 3 would start again from the newest checkpoint)" if not launch.max_restarts else ""
        raise PeerError(f"rank {rank} {how}{more}.") from None
    return 0
