# SPDX-License-Identifier: BSD-3-Clause
"""Open files of any kind as bytes: plain, compressed, UTF-16, remote, or a pipe."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from pairlearn.atomic import cure_of
from pairlearn.streams.readers.base import ReadError, digest

#: Bytes of the head and of the tail of a file that go into its stamp.
EDGE = 1 << 16
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
_REMOTE = re.compile(r"[a-z][a-z0-9+]+://")


def is_remote(target: Any) -> bool:
    """Whether a source is the address of a remote file, such as ``https://...`` or ``s3://...``."""
    return isinstance(target, str) and _REMOTE.match(target) is not None


def is_path(target: Any) -> bool:
    """Whether a source is a path or an address, which can be opened again."""
    return isinstance(target, (str, os.PathLike)) and os.fspath(target) != "-"


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
        # A path is opened several times: to tell the format, to look at columns, to read.
        raise ReadError(
            f"{path} is a pipe, which can be read only once; pass - and let the command read from "
            "it (`pairlearn ... - < PIPE`), or write it to a file first."
        )
    return path


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).rstrip(".")


def open_raw(target: Any) -> BinaryIO:
    """Return a file or a remote file as it lies there."""
    if is_remote(target):
        try:
            import fsspec
        except ImportError:
            raise ReadError(f"{target} is remote, which needs fsspec; install it.") from None
        try:
            return cast(BinaryIO, fsspec.open(target).open())
        except Exception as error:  # each file system has errors of its own
            raise ReadError(f"{target} cannot be opened: {_reason(error)}.") from None
    path = check_file(target)
    try:
        return open(path, "rb")
    except PermissionError:
        raise ReadError(
            f"{path} cannot be read: permission denied; run `chmod u+r {path}` or ask its owner."
        ) from None
    except OSError as error:
        raise ReadError(f"{path} cannot be opened: {_reason(error)}; check the path.") from None


def sniff(path: str | os.PathLike[str]) -> str:
    """Return the type of a file by its first bytes: a format, a compression or 'text'."""
    with open_raw(path) as file:
        return _kind(file.read(12))


def _kind(head: bytes) -> str:
    if head[8:12] == b"DUCK":  # behind a checksum of eight bytes
        return "duckdb"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "text")


def stamp_of(target: Any) -> str:
    """Return size, modification time, and a digest of head and tail; empty for a pipe."""
    if not is_path(target) or is_remote(target):
        return ""
    try:
        facts = os.stat(target)
        with open_raw(os.fspath(target)) as file:
            head = file.read(EDGE)
            file.seek(max(0, facts.st_size - EDGE))
            edges = digest(head, file.read(EDGE), getattr(target, "query", ""))
    except OSError as error:
        raise ReadError(f"{target} cannot be read: {_reason(error)}; {cure_of(error)}.") from None
    return f"{facts.st_size}:{facts.st_mtime_ns}:{edges}"


class TextSource:
    """The decompressed bytes of a text, forward only; ``"-"`` is standard input."""

    def __init__(self, target: Any) -> None:
        self.offset, self._decoder = 0, None
        self.is_pipe = not is_path(target)
        raw = target
        if not self.is_pipe:
            self.name, raw = str(target), open_raw(target)
        elif isinstance(target, str):
            self.name, raw = "standard input", sys.stdin.buffer
        else:
            name = getattr(target, "name", None)
            self.name = name if isinstance(name, str) else type(target).__name__
        self._raw = raw
        #: Whether more bytes may have to be waited for.
        self.is_live = self.is_pipe and not (hasattr(raw, "seekable") and raw.seekable())
        try:
            if isinstance(raw, io.TextIOBase):
                raise ReadError("data must come as bytes; open the file with mode 'rb'.")
            source = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
            self._content = self._decompressed(source, _kind(source.peek(12)[:12]))
            head = self._read(4096, self._content.read1)
            if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
                head = self._decoder.decode(head).encode()
            self._check_text(head)
        except BaseException:
            self.close()
            raise
        self._ahead = head

    def _decompressed(self, raw: Any, kind: str) -> Any:
        if kind == "text":
            return raw
        if kind == "gzip":
            import gzip

            return gzip.GzipFile(fileobj=raw)
        if kind in ("xz", "bzip2"):
            from pairlearn.data.compressed import Decompressed

            return io.BufferedReader(Decompressed(raw, kind), 1 << 16)
        if kind == "zstd":
            try:
                import pyarrow
            except ImportError:
                raise ReadError(
                    f"{self.name} is compressed with zstd, which needs PyArrow; "
                    "install pairlearn[arrow] or recompress it with gzip or xz."
                ) from None
            return pyarrow.CompressedInputStream(raw, "zstd")
        cure = _CURES.get(kind, "leave its format to be found, or save it as CSV")
        raise ReadError(f"{self.name} is a {kind} file, not text; {cure}.")

    def _check_text(self, head: bytes) -> None:
        if 0 in head:
            raise ReadError(
                f"{self.name} is not text: it has a zero byte at offset {head.index(0)}; "
                "save it as CSV, or check that it is the right file."
            )
        beginning = head.removeprefix(codecs.BOM_UTF8).lstrip()
        for pattern, kind, cure in _OTHER_TEXTS:
            if pattern.match(beginning):
                raise ReadError(f"{self.name} is {kind}, not a table; {cure}.")

    @property
    def is_empty(self) -> bool:
        """Whether there are no bytes at all; ask before reading."""
        return not self._ahead and not self.offset

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end; a live pipe gives what it has."""
        part, self._ahead = self._ahead[:size], self._ahead[size:]
        if not self.is_live:
            part += self._read(size - len(part), self._content.read)
        elif not part:
            part = self._read(size, self._content.read1)
        self.offset += len(part)
        return part

    def _read(self, size: int, read: Callable[[int], bytes | None]) -> bytes:
        try:
            part = bytes(read(size) or b"")
        except Exception as error:
            known = isinstance(error, (OSError, EOFError, ValueError))
            if not known and type(error).__module__ not in ("_lzma", "lzma", "zlib"):
                raise
            what = f"{self.name} cannot be read after byte {self.offset}: {_reason(error)}; "
            if isinstance(error, OSError) and error.errno is not None:
                raise ReadError(f"{what}{cure_of(error)}.") from None
            raise ReadError(f"{what}it is damaged or cut short, write it again.") from None
        if self._decoder is None:
            return part
        found: bytes = self._decoder.decode(part, not part).encode()
        return found if found or not part else self._read(size, read)

    def close(self) -> None:
        """Close the file; a pipe stays open for its owner."""
        if not self.is_pipe:
            self._raw.close()

    def __del__(self) -> None:
        if hasattr(self, "_raw"):
            self.close()
