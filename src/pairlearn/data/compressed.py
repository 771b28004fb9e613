# SPDX-License-Identifier: BSD-3-Clause
"""Read files compressed with xz or bzip2 to their very end.

Python's own files end without a word where something else follows a compressed stream, so that what
stands behind a damaged place would be lost.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

#: Compressed bytes that are read at once.
_BLOCK = 1 << 16


class Decompressed(io.RawIOBase):
    """The content of compressed streams, one after the other; `raw` stays open.

    `kind` is "xz" or "bzip2". Zeros between streams, and at the end, are padding.

    >>> import lzma
    >>> joined = lzma.compress(b"a,b") + lzma.compress(b",c")
    >>> Decompressed(io.BytesIO(joined), "xz").readall()
    b'a,b,c'
    """

    def __init__(self, raw: BinaryIO, kind: str) -> None:
        self._raw, self._kind = raw, kind
        self._now = self._next()

    def _next(self) -> Any:
        if self._kind == "xz":
            import lzma

            return lzma.LZMADecompressor()
        import bz2

        return bz2.BZ2Decompressor()

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the front; return the number of bytes, 0 at the end."""
        view, found = memoryview(buffer).cast("B"), b""
        while not found and len(view):
            given = b""
            if self._now.eof:
                given = self._now.unused_data.lstrip(b"\0")
                while not given:
                    part = self._raw.read(_BLOCK)
                    if not part:
                        return 0
                    given = part.lstrip(b"\0")
                self._now = self._next()
            elif self._now.needs_input:
                given = self._raw.read(_BLOCK)
                if not given:
                    raise EOFError("it ends inside a compressed stream")
            found = self._now.decompress(given, len(view))
        view[: len(found)] = found
        return len(found)
