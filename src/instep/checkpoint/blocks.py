"""Bytes to a file, in blocks of a few megabytes, with the checksum taken on the way.

A file of more than one block goes past the operating system's cache where that can be done (Linux, most file systems): into the
cache and from there to the disk it would be copied twice more, by the processors that train. For a checkpoint of 300 MB beside a
run on all cores that is half of its cost, and the cache keeps what the run reads.
"""

import errno
import mmap
import os
import sys
import zlib
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np

from instep.records import record_class

# Small enough to stay in the cache of the processor between the checksum and the file; large enough that a writer beside a run
# that is busy in Python asks for the interpreter a few dozen times, not thousands.
BLOCK_BYTES = 4 << 20
Bytes = bytes | memoryview


@record_class
class FileSummary:
    """What a manifest says of a file."""

    size_bytes: int
    crc32: int


def write_chunks(file: BinaryIO, chunks: Iterable[Bytes]) -> FileSummary:
    """Write all of it to an unbuffered file. It is still to be synced."""
    block = memoryview(mmap.mmap(-1, BLOCK_BYTES))  # begins with a page, as what goes past the cache must
    size, checksum, filled = 0, 0, 0
    for chunk in chunks:
        begin = 0
        while begin < len(chunk):
            end = min(begin + BLOCK_BYTES - filled, len(chunk))
            _copy(chunk[begin:end], block[filled:])
            filled, begin = filled + end - begin, end
            if filled == BLOCK_BYTES:
                if not size:
                    _go_past_cache(file, True)
                checksum, size, filled = zlib.crc32(block, checksum), size + filled, 0
                _write_all(file, block)
    if size and filled:
        _go_past_cache(file, False)  # which takes whole pages only
    last = block[:filled]
    _write_all(file, last)
    return FileSummary(size + filled, zlib.crc32(last, checksum))


def _copy(part: Bytes, to: memoryview) -> None:
    """By NumPy, which lets other threads run meanwhile."""
    np.frombuffer(to, np.uint8, len(part))[:] = np.frombuffer(part, np.uint8)


def _write_all(file: BinaryIO, part: Bytes) -> None:
    """An unbuffered file may take less than it is given, as on a disk that is nearly full."""
    while part:
        try:
            written = file.write(part)
        except OSError as error:
            if error.errno != errno.EINVAL or not _go_past_cache(file, False):
                raise  # not because this file system, or what is left of the block, wants the cache
        else:
            part = memoryview(part)[written:]


def _go_past_cache(file: BinaryIO, past: bool) -> bool:
    """Have what follows written past the cache, or through it; says whether that is a change."""
    if sys.platform != "linux":
        return False
    import fcntl

    before = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
    after = before | os.O_DIRECT if past else before & ~os.O_DIRECT
    if after == before:
        return False
    try:
        fcntl.fcntl(file.fileno(), fcntl.F_SETFL, after)
    except OSError:  # it knows no such way
        return False
    return True
