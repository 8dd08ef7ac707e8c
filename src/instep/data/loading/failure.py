"""What went wrong while data was loaded: which sample, and which line of the user's own code; here or in a worker."""

import traceback
from typing import NamedTuple

from instep.errors import DataError, is_user_file

LONGEST = 300  # signs of somebody else's message that are shown
# What code of a user's raises while data is loaded. The last two are no Exceptions: one would end the program, or its worker,
# the other a loop over updates(), and neither would say why.
RAISED = (Exception, SystemExit, GeneratorExit)


class WorkerFailure(NamedTuple):
    """An error on its way from a worker: exceptions and their tracebacks cannot be sent, words can."""

    message: str
    trace: str


class InWorker(Exception):
    """The traceback of an error that happened in a worker process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def failed(what: str, error: BaseException) -> DataError:
    """The error to raise `from` one of the user's code: what could not be done, why, and on which line of theirs."""
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return DataError(f"{what}: {said}{user_line(error)}")


def pack_error(error: DataError) -> WorkerFailure:
    """The error as something that can be sent."""
    return WorkerFailure(str(error), "".join(traceback.format_exception(error.__cause__ or error)))


def unpack_error(failure: WorkerFailure) -> DataError:
    """The error as it was raised in the worker, with the traceback from there as its cause."""
    error = DataError(failure.message)
    error.__cause__ = InWorker(failure.trace)
    return error


def user_line(error: BaseException) -> str:
    """The innermost line that is neither Instep's nor a library's, in brackets; nothing where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_user_file(frame.filename)]
    if not own:
        return ""
    frame = own[-1]
    line = f": {frame.line}" if frame.line else ""
    return f" ({frame.filename}:{frame.lineno}, in {frame.name}{line})"
