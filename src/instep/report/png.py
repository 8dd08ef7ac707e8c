"""PNG: an image file from rows of colours, with what Python brings along."""

import struct
import zlib
from typing import Any

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(colours: Any) -> bytes:
    """The file of an array (height, width, 3) of bytes."""
    height, width, _ = colours.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red green blue, nothing interlaced
    rows = b"".join(b"\x00" + row.tobytes() for row in colours)  # 0: the row is not filtered
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
