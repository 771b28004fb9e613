# SPDX-License-Identifier: BSD-3-Clause
"""Read bytes from a file, a compressed file or a pipe, forward only, with a known offset.

UTF-16 text, which spreadsheets write, is converted to UTF-8.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO, cast

from pairlearn.atomic import cure_of
from pairlearn.streams.readers.base import ReadError, digest

#: Bytes of the beginning that go into a fingerprint.
HEAD = 4096
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"FEA1": "feather1",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "zip",
    b"\x89HDF": "hdf5",
    b"%PDF-": "PDF",
    b"\xd0\xcf\x11\xe0": "workbook (xls)",
    b"SQLite f": "SQLite database",
}
#: What a DuckDB file has behind a checksum of eight bytes.
_DUCKDB = b"DUCK"
_CURES = {
    "feather1": "write it as Feather of version 2, Arrow or Parquet",
    "zip": "unpack it, or, if it is a workbook of Excel, save its sheet as CSV",
    "PDF": "save its table as CSV",
    "workbook (xls)": "save its sheet as CSV",
    "hdf5": "save its table as CSV or Parquet",
    "SQLite database": "save its table as CSV",
}

#: Texts that are no tables: how they begin, what they are, and the cure.
_OTHER_TEXTS = (
    (
        re.compile(rb"<(!doctype\s+html|html|head|body)\b", re.IGNORECASE),
        "a web page (HTML)",
        "a download may have asked you to sign in; fetch the table itself",
    ),
    (re.compile(rb"<\?xml\b", re.IGNORECASE), "XML", "save its table as CSV"),
    (re.compile(rb'(\[\s*)?\{\s*"[^"\n]*"\s*:'), "JSON", "save its table as CSV or Parquet"),
)


def check_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a readable file; otherwise raise an error with the reason."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ReadError(f"{path} does not exist; check the path.") from None
    except (OSError, ValueError) as error:
        raise ReadError(f"{path} cannot be opened: {_reason(error)}; check the path.") from None
    if stat.S_ISDIR(mode):
        raise ReadError(f"{path} is a directory; name the files in it, or use Parquet or Arrow.")
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        # A path is opened several times: to tell the format, to look at columns, to read. Each time
        # a pipe gives what comes next, so the first bytes would be lost.
        raise ReadError(
            f"{path} is a pipe, which can be read only once; pass - and let the command read from "
            "it (`pairlearn ... - < PIPE`), or write it to a file first."
        )
    return path


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).rstrip(".")


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb", buffering=0)
    except PermissionError:
        raise ReadError(
            f"{path} cannot be read: permission denied; run `chmod u+r {path}` or ask its owner."
        ) from None
    except OSError as error:
        raise ReadError(f"{path} cannot be opened: {_reason(error)}; check the path.") from None


def sniff(path: str | os.PathLike[str]) -> str:
    """Return the type of a file by its first bytes: a format, a compression or 'text'."""
    with _open(check_file(path)) as file:
        head = file.read(12)
    return "duckdb" if head[8:] == _DUCKDB else _kind(head)


def _kind(head: bytes) -> str:
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    return "text"


class ByteSource:
    """The decompressed bytes of one file or pipe, read forward; `offset` bytes are consumed.

    Text with the byte-order mark of UTF-16 is converted to UTF-8. The target ``"-"`` is standard
    input. The first bytes, not the name, tell the compression.
    """

    def __init__(self, target: Any) -> None:
        self.offset = 0
        self.closed = False
        self._plain = False
        self.can_reopen = isinstance(target, (str, os.PathLike)) and os.fspath(target) != "-"
        try:
            self._open_target(target)
        except BaseException:
            self.close()
            raise

    def _open_target(self, target: Any) -> None:
        """Open the target, decompress and decode it, and read its first bytes."""
        if self.can_reopen:
            path = check_file(target)
            self.name = str(path)
            with _open(path) as file:
                head = file.read(8)
            kind = _kind(head)
            self._plain = kind == "text"
            self._raw: BinaryIO = _open(path)
            self._before = os.fstat(self._raw.fileno())
            self._content = self._decompress(kind)
            live = False
        else:
            self.name = "standard input" if isinstance(target, str) else _name_of(target)
            self._raw = sys.stdin.buffer if isinstance(target, str) else target
            beginning = _first_bytes(self._raw)
            self._raw = cast(BinaryIO, _Replay(beginning, self._raw))
            self._content = self._decompress(_kind(beginning))
            live = True
        self._head = bytearray()
        self._digests: dict[int, str] = {}
        self._ahead = memoryview(b"")
        # a pipe may be slow: do not wait for more than its first line
        self._extend_head(1 if live else HEAD)
        if bytes(self._head[:2]) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            self._content = cast(BinaryIO, _Utf16(bytes(self._head), self._content))
            self._plain = False
            self._head, self._ahead = bytearray(), memoryview(b"")
            self._extend_head(1 if live else HEAD)
        self._check_text()

    def _decompress(self, kind: str) -> BinaryIO:
        """Return the raw file as decompressed bytes."""
        if kind == "text":
            return self._raw
        if kind == "gzip":
            import gzip

            return cast(BinaryIO, gzip.GzipFile(fileobj=self._raw))
        if kind in ("xz", "bzip2"):
            from pairlearn.data.compressed import Decompressed

            return cast(BinaryIO, io.BufferedReader(Decompressed(self._raw, kind), 1 << 16))
        if kind == "zstd":
            try:
                import pyarrow
            except ImportError:
                raise ReadError(
                    f"{self.name} is compressed with zstd, which needs PyArrow; "
                    "install pairlearn[arrow] or recompress it with gzip or xz."
                ) from None
            return cast(BinaryIO, pyarrow.CompressedInputStream(self._raw, "zstd"))
        cure = _CURES.get(kind, "leave its format to be found, or save it as CSV")
        raise ReadError(f"{self.name} is a {kind} file, not text; {cure}.")

    def _extend_head(self, length: int) -> None:
        while len(self._head) < length:
            part = self._read(HEAD - len(self._head))
            if not part:
                break
            self._head += part
            self._ahead = memoryview(bytes(self._ahead) + part)

    def _check_text(self) -> None:
        head = self._head
        if 0 in head:
            raise ReadError(
                f"{self.name} is not text: it has a zero byte at offset {head.index(0)}; "
                "save it as CSV, or check that it is the right file."
            )
        beginning = bytes(head).removeprefix(codecs.BOM_UTF8).lstrip()
        for pattern, kind, cure in _OTHER_TEXTS:
            if pattern.match(beginning):
                raise ReadError(f"{self.name} is {kind}, not a table; {cure}.")

    def _read(self, size: int) -> bytes:
        try:
            return bytes(self._content.read(size) or b"")
        except (OSError, EOFError, ValueError) as error:
            raise self._damaged(error) from None
        except Exception as error:
            # lzma and zlib have their own error classes
            if type(error).__module__ in ("_lzma", "lzma", "zlib"):
                raise self._damaged(error) from None
            raise

    def _damaged(self, error: BaseException) -> ReadError:
        if isinstance(error, OSError) and error.errno is not None:
            return ReadError(
                f"{self.name} cannot be read after byte {self.offset}: {_reason(error)}; "
                f"{cure_of(error)}."
            )
        return ReadError(
            f"{self.name} cannot be read after byte {self.offset}: {_reason(error)}; "
            "it is damaged or cut short, write it again."
        )

    @property
    def is_empty(self) -> bool:
        """Whether the source has no bytes."""
        return not self._head

    def fingerprint(self, length: int = HEAD) -> str:
        """Return a digest of the first bytes, to notice other data on resuming."""
        size = min(len(self._head), length)
        # the known beginning only grows, so the digest of its first `size` bytes never changes
        if size not in self._digests:
            self._digests[size] = f"{size}:{digest(bytes(self._head[:size]))}"
        return self._digests[size]

    def matches(self, fingerprint: str) -> bool:
        """Whether the data starts as it did when `fingerprint` was taken (it may have grown)."""
        length = fingerprint.partition(":")[0]
        if not length.isdigit() or int(length) > HEAD:
            return False
        self._extend_head(int(length))
        return self.fingerprint(int(length)) == fingerprint

    def readinto(self, view: memoryview) -> int:
        """Fill `view` from the front; return the number of bytes, 0 at the end."""
        if self._ahead:
            size = min(len(self._ahead), len(view))
            view[:size] = self._ahead[:size]
            self._ahead = self._ahead[size:]
        elif self._plain:
            try:
                size = cast(io.RawIOBase, self._raw).readinto(view) or 0
            except OSError as error:
                raise self._damaged(error) from None
        else:
            part = self._read(len(view))
            size = len(part)
            view[:size] = part
        self.offset += size
        if not size and len(view) and self.can_reopen:
            self._check_same()
        return size

    def _check_same(self) -> None:
        """Refuse a file that was cut or rewritten meanwhile; it may have grown."""
        now = os.fstat(self._raw.fileno())
        if stat.S_ISREG(now.st_mode) and now.st_size <= self._before.st_size:
            check_same(self.name, self._before, now)

    def close(self) -> None:
        """Close the file; a pipe stays open for its owner."""
        if self.can_reopen and not self.closed:
            for name in ("_content", "_raw"):
                file = getattr(self, name, None)
                if file is not None:
                    file.close()
            self.closed = True

    def __del__(self) -> None:
        self.close()


def _first_bytes(file: Any) -> bytes:
    """Return the bytes that tell the type of data, waiting for at most a first line."""
    read = getattr(file, "read1", file.read)
    found = b""
    while len(found) < 8 and b"\n" not in found:
        part = read(8 - len(found))
        if isinstance(part, str):
            raise ReadError("data must come as bytes; open the file with mode 'rb'.")
        if not part:
            break
        found += part
    return found


def _name_of(target: Any) -> str:
    name = getattr(target, "name", None)
    return name if isinstance(name, str) else type(target).__name__


class _Replay(io.RawIOBase):
    """A file with its first bytes, which were read for a look, put back."""

    def __init__(self, beginning: bytes, rest: BinaryIO) -> None:
        self._beginning = beginning
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        read = getattr(self._rest, "read1", self._rest.read)  # available bytes, without waiting
        part = self._beginning or read(len(view)) or b""
        size = min(len(part), len(view))
        view[:size] = part[:size]
        self._beginning = part[size:]
        return size


class _Utf16:
    """Convert UTF-16 text with a byte-order mark to UTF-8; `beginning` was already read."""

    def __init__(self, beginning: bytes, rest: BinaryIO) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        self._rest = rest
        self._ready = self._encoded(beginning)

    def _encoded(self, raw: bytes, final: bool = False) -> bytes:
        return self._decoder.decode(raw, final).encode("utf-8", "replace")

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end."""
        while not self._ready and size:
            raw = self._rest.read(size)
            self._ready = self._encoded(bytes(raw or b""), final=not raw)
            if not raw:
                break
        part, self._ready = self._ready[:size], self._ready[size:]
        return part

    def close(self) -> None:
        """Close the file."""
        self._rest.close()


def check_same(name: object, before: os.stat_result, now: os.stat_result) -> None:
    """Refuse a file that was cut, rewritten or replaced since `before`."""
    if any(getattr(before, of) != getattr(now, of) for of in ("st_size", "st_mtime_ns", "st_ino")):
        raise ReadError(
            f"{name} changed while it was read; wait until it is complete and start again."
        )
