"""Large files: past the cache where that can be done, and the same bytes wherever they go."""

import errno
import os
import sys
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from instep.checkpoint.blocks import BLOCK_BYTES, write_chunks

if sys.platform == "linux":
    import fcntl

SIZES = {
    "nothing": [],
    "a few bytes": [3, 0, 5],
    "one block": [BLOCK_BYTES],
    "a block and a byte": [BLOCK_BYTES, 1],
    "odd ones over several blocks": [7, BLOCK_BYTES - 3, 2 * BLOCK_BYTES + 11, 4096, 1],
}


def chunks_of(sizes: list[int]) -> list[bytes | memoryview]:
    whole = os.urandom(sum(sizes))
    edges = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [memoryview(whole)[a:b] if i % 2 else whole[a:b] for i, (a, b) in enumerate(pairwise(edges))]


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_the_bytes_their_number_and_their_checksum(tmp_path: Path, sizes: list[int]) -> None:
    chunks = chunks_of(sizes)
    whole = b"".join(chunks)
    with open(tmp_path / "file", "xb", buffering=0) as file:
        written = write_chunks(file, chunks)
    assert (tmp_path / "file").read_bytes() == whole
    assert (written.size_bytes, written.crc32) == (len(whole), zlib.crc32(whole))


class Refusing:
    """A file that takes nothing past the cache, as on a file system that knows no such way, or takes part of a block only."""

    def __init__(self, file: BinaryIO, error: int, takes: int) -> None:
        self.file, self.error, self.takes, self.refused = file, error, takes, 0

    def fileno(self) -> int:
        return self.file.fileno()

    def write(self, part: memoryview) -> int:
        if fcntl.fcntl(self.fileno(), fcntl.F_GETFL) & os.O_DIRECT:
            if self.takes == 0:
                self.refused += 1
                raise OSError(self.error, os.strerror(self.error))
            part, self.takes = part[: self.takes], 0
        return self.file.write(part)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files that go past the cache")
@pytest.mark.parametrize("takes", [0, 8192])
def test_where_the_file_system_refuses_the_cache_is_used(tmp_path: Path, takes: int) -> None:
    chunks = chunks_of(SIZES["odd ones over several blocks"])
    with open(tmp_path / "file", "xb", buffering=0) as file:
        refusing: Any = Refusing(file, errno.EINVAL, takes)
        tries = int(can_go_past_cache(file))
        written = write_chunks(refusing, chunks)
    assert (tmp_path / "file").read_bytes() == b"".join(chunks)
    assert written.crc32 == zlib.crc32(b"".join(chunks))
    assert refusing.refused == tries  # it is not tried again


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files that go past the cache")
def test_a_full_disk_is_not_mistaken_for_one_that_refuses(tmp_path: Path) -> None:
    with open(tmp_path / "file", "xb", buffering=0) as file:
        refusing: Any = Refusing(file, errno.ENOSPC, 0)
        if not can_go_past_cache(file):
            pytest.skip("this file system has no files that go past the cache")
        with pytest.raises(OSError, match="No space left"):
            write_chunks(refusing, [bytes(BLOCK_BYTES)])


def can_go_past_cache(file: BinaryIO) -> bool:
    flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
    try:
        fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags | os.O_DIRECT)
    except OSError:
        return False
    fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags)
    return True
