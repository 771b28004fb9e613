# SPDX-License-Identifier: BSD-3-Clause
"""Read arrays in ``.npy`` files piece by piece."""

from __future__ import annotations

import ast
import contextlib
import math
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.atomic import described
from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError, digest
from pairlearn.streams.readers.byte_source import HEAD, check_file, check_same, sniff
from pairlearn.streams.readers.consumed import Consumed, parse_marks
from pairlearn.streams.readers.row_buffer import RowChecker, chunk_rows_for
from pairlearn.typing import Vector

#: The limit of numpy, which writes 128.
MAX_HEADER_BYTES = 10_000
#: Bytes read at once; they stay in the processor's cache.
_PIECE = 1 << 18
_PLAIN_TYPE = re.compile(r"[<>|=]?[fiub](1|2|4|8|16)|[?]")


class _Array:
    """Rows of one ``.npy`` file, read piece by piece so that memory does not grow with it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = check_file(path)
        if sniff(path) != "npy":
            raise ReadError(f"{path} is not a .npy file; write it with numpy.save.")
        try:
            self._read_header()
        except (ValueError, OSError, EOFError) as error:
            if isinstance(error, ReadError):
                raise
            raise ReadError(
                f"{path} cannot be read: {str(error).rstrip('.')}; write it again."
            ) from None
        self._row_bytes = self._dtype.itemsize * math.prod(self.shape[1:])

    def _read_header(self) -> None:
        """Read type, shape and first byte of the array from its short header."""
        with open(self.path, "rb") as file:
            start = file.read(12)
            if len(start) < 12:
                raise ValueError("it ends inside its header")
            wide = start[6:7] != b"\x01"
            begin = 12 if wide else 10
            length = int.from_bytes(start[8:begin], "little")
            if not 1 <= start[6] <= 3 or length > MAX_HEADER_BYTES:
                raise ValueError(f"its header has version {start[6]} and {length} bytes")
            file.seek(begin)
            text = file.read(length)
            self._before = os.fstat(file.fileno())
            size = self._before.st_size
        self.shape, self._dtype, in_order = _parse_header(text, self.path)
        self._offset = begin + length
        n_bytes = math.prod(self.shape) * self._dtype.itemsize
        if self._offset + n_bytes > size:
            raise ValueError(
                f"its array of shape {self.shape} takes {n_bytes} bytes, but the file has {size}"
            )
        if len(self.shape) not in (1, 2) or not in_order:
            raise ReadError(
                f"{self.path} must hold one array of rows in C order, got shape {self.shape}; save "
                "it with numpy.save(path, numpy.ascontiguousarray(X))."
            )

    def rows(self, begin: int, stop: int, consumed: Consumed) -> tuple[NDArray[Any], bool]:
        """Return a copy of rows ``begin:stop``, and whether all numbers are known to be finite.

        A memory map would stay resident. Each piece is digested and checked while it is in the
        cache.
        """
        rows = np.empty((stop - begin, *self.shape[1:]), dtype=self._dtype)
        view = memoryview(rows.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        address, at, finite = rows.ctypes.data, 0, True
        with self._told(), open(self.path, "rb", buffering=0) as file:
            file.seek(self._offset + begin * self._row_bytes)
            while at < len(view):
                size = file.readinto(view[at : at + _PIECE])
                if not size:
                    raise ReadError(f"{self.path} was cut short while it was read; write it again.")
                finite &= consumed.take_at(address + at, size, self._dtype)
                at += size
            # The name is opened for each chunk: another file may have taken it.
            check_same(self.path, self._before, os.fstat(file.fileno()))
        return rows, finite and bool(np.isfinite(rows.reshape(-1)[-consumed.block :]).all())

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Name the file in errors of the system."""
        try:
            yield
        except OSError as error:
            raise ReadError(described(error, str(self.path))) from None

    def head(self) -> bytes:
        with open(self.path, "rb") as file:
            return file.read(HEAD)


def _parse_header(text: bytes, path: Path) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Return shape, type and whether the order is C, from the text of a header."""
    try:
        found = ast.literal_eval(text.decode("latin1").strip())
    # all errors of the literal parser; deep nesting exhausts its stack
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise ValueError("its header is not a literal") from None
    if not isinstance(found, dict) or set(found) != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header does not say type, order and shape")
    kind, shape = found["descr"], found["shape"]
    if not isinstance(kind, str) or not _PLAIN_TYPE.fullmatch(kind):
        raise ReadError(f"{path} holds {kind!r:.40}, not numbers; save a plain float array.")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"its header has the shape {shape!r:.60}")
    try:
        dtype = np.dtype(kind)
    except TypeError:
        raise ValueError(f"its header has the type {kind!r:.40}") from None
    in_order = found["fortran_order"] is False or sum(n > 1 for n in shape) < 2
    return shape, dtype, in_order


class NpyReader(Reader):
    """Chunks of rows from a ``.npy`` file of features and, optionally, one of labels.

    Parameters
    ----------
    path : path
        A two-dimensional array in C order.
    y : path or array-like, optional
        Labels, one for each row.
    label : int, optional
        Column of the first array that holds the label, instead of `y`.
    dtype : "float64" or "float32"
        Type of the features.
    chunk_rows : int, optional
        Rows in a chunk; by default a chunk takes about 4 MB.
    strict : bool, default False
        Stop at the first row with a value that is not finite, instead of refusing the row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/X.npy", np.eye(3))
    ...     [a, b] = NpyReader(folder + "/X.npy", [1, 0, 1], chunk_rows=2)
    >>> a.X, a.y, b.y
    (array([[1., 0., 0.], [0., 1., 0.]]), array([1., 0.]), array([1.]))
    """

    format = "npy"

    def __init__(
        self,
        path: str | os.PathLike[str],
        y: str | os.PathLike[str] | ArrayLike | None = None,
        *,
        label: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        chunk_rows: int | None = None,
        strict: bool = False,
    ) -> None:
        super().__init__(strict=strict)
        self._X = _Array(path)
        if len(self._X.shape) != 2:
            raise ReadError(f"{path} must hold a matrix, got shape {self._X.shape}.")
        n, width = self._X.shape
        if y is not None and label is not None:
            raise ReadError("the label is given twice, by y= and by label=; keep one of them.")
        if label is not None and not -width <= label < width:
            raise ReadError(
                f"{path} has no column {label}; it has {width} columns, 0 to {width - 1}."
            )
        self._label = None if label is None else label % width
        self._y: _Array | Vector | None = None
        if isinstance(y, (str, os.PathLike)):
            self._y = _Array(y)
        elif y is not None:
            self._y = np.asarray(y, dtype=np.float64)
        if self._y is not None and self._y.shape != (n,):
            raise ReadError(
                f"y has shape {self._y.shape} and {path} has {n} rows; they must agree."
            )
        self.dtype = dtype
        self.n_features = width - (label is not None)
        if self.n_features < 1:
            raise ReadError(f"{path} leaves no column for features.")
        self.feature_names = None
        self.chunk_rows = chunk_rows_for(chunk_rows, self.n_features)
        self._consumed = Consumed()
        self.position = replace(
            Position(self.format), fingerprint=self._fingerprint(), consumed=self._consumed.place(0)
        )

    def _fingerprint(self) -> str:
        labels = self._y
        y_head = labels.head() if isinstance(labels, _Array) else b""
        if isinstance(labels, np.ndarray):
            y_head = labels[:HEAD].tobytes()
        options = (self._X.shape, self._label, self.dtype, self.chunk_rows)
        return digest(options, self._X.head(), y_head)

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same arrays saved."""
        self._check_position(position, self._fingerprint())
        self._consumed = Consumed()
        at = 0
        for mark in parse_marks(position.consumed):
            before = at
            while at < mark[0]:
                begin, at = at, min(mark[0], at + self.chunk_rows)
                self._read(begin, at)
            self._consumed.check(str(self._X.path), "row", mark, before)
        if at != position.offset:
            raise ReadError("the saved position has no digest of its place; start again.")
        self.position = position

    def _read(self, begin: int, stop: int) -> tuple[NDArray[Any], NDArray[Any] | None, bool]:
        """Digest and return rows and their labels, and whether the rows are known to be finite.

        Labels are None if there are none.
        """
        rows, finite = self._X.rows(begin, stop, self._consumed)
        if self._y is None:
            return rows, None, finite
        if isinstance(self._y, _Array):
            return rows, self._y.rows(begin, stop, self._consumed)[0], finite
        labels = np.ascontiguousarray(self._y[begin:stop])
        self._consumed.take(labels)
        return rows, labels, finite

    def __iter__(self) -> Iterator[Chunk]:
        n = self._X.shape[0]
        while self.position.offset < n:
            begin = self.position.offset
            stop = min(n, begin + self.chunk_rows)
            part, labels, finite = self._read(begin, stop)
            finite = finite and np.can_cast(part.dtype, self.dtype)
            # values too large for the type and signalling NaNs are refused below
            with np.errstate(over="ignore", invalid="ignore"):
                y = None if labels is None else np.array(labels, dtype=np.float64)
                if self._label is not None:
                    y = part[:, self._label].astype(np.float64)
                    part = np.delete(part, self._label, axis=1)
                X = np.ascontiguousarray(part, dtype=self.dtype)
            lines = np.arange(begin + 1, stop + 1)
            checker = RowChecker(self, None, str(self._X.path))
            finite = finite or bool(np.isfinite(X).all())
            if not (finite and (y is None or np.isfinite(y).all())):
                bad = ~np.isfinite(X).all(axis=1)
                if y is not None:
                    bad |= ~np.isfinite(y)
                for row in np.flatnonzero(bad).tolist():
                    checker.refuse(begin + row + 1, "a value is NaN or infinite; impute it first")
                checker.flush()
                X, lines = X[~bad], lines[~bad]
                y = None if y is None else y[~bad]
            first_row = self.position.row
            self.position = replace(
                self.position,
                offset=stop,
                line=stop + 1,
                row=first_row + len(X),
                refusals=checker.refusals,
                consumed=self._consumed.place(stop),
            )
            if len(X):
                yield Chunk(X, y, None, first_row, lines, self.position)
        if self.position.row == 0:
            raise self._nothing_read(str(self._X.path))
