"""Exceptions that a signal handler of the script's raises while the doctor works: they are the script's, not the doctor's."""

import functools
import signal
from types import CodeType, TracebackType


def is_of_a_handler(error: BaseException) -> bool:
    """Whether it comes out of a function that answers for a signal: a time limit, a request to stop."""
    codes = {code for number in signal.valid_signals() if (code := _code(signal.getsignal(number))) is not None}
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code(handler: object) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = handler if hasattr(handler, "__code__") or not callable(handler) else type(handler).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
