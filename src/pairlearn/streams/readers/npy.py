# SPDX-License-Identifier: BSD-3-Clause
"""Read arrays in ``.npy`` files piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tokenize import TokenError
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.streams.readers.base import (
    Chunk,
    Position,
    Reader,
    ReadError,
    chunk_rows_for,
    digest,
)
from pairlearn.streams.readers.files import check_file, sniff, stamp_of


def _mapped(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of a file, mapped into memory."""
    check_file(path)
    if sniff(path) != "npy":
        raise ReadError(f"{path} is not a .npy file; write it with numpy.save.")
    try:
        with np.errstate(over="raise"):
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (
        ValueError, OSError, EOFError, SyntaxError, ArithmeticError, TypeError, MemoryError,
        TokenError,
    ) as error:  # fmt: skip
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ReadError(f"{path} cannot be read: {reason[:200]}; write it again.") from None
    if array.dtype.kind not in "fiub":
        raise ReadError(f"{path} holds {array.dtype}, not numbers; save a plain float array.")
    if array.ndim not in (1, 2) or not array.flags.c_contiguous:
        raise ReadError(
            f"{path} must hold one array of rows in C order, got shape {array.shape}; save it "
            "with numpy.save(path, numpy.ascontiguousarray(X))."
        )
    return array


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
        self._path, self._X = path, _mapped(path)
        if self._X.ndim != 2:
            raise ReadError(f"{path} must hold a matrix, got shape {self._X.shape}.")
        n, width = self._X.shape
        if y is not None and label is not None:
            raise ReadError("the label is given twice, by y= and by label=; keep one of them.")
        if label is not None and not -width <= label < width:
            raise ReadError(
                f"{path} has no column {label}; it has {width} columns, 0 to {width - 1}."
            )
        self._label = None if label is None else label % width
        if isinstance(y, (str, os.PathLike)):
            y = _mapped(y)
        self._y = None if y is None else np.asarray(y)
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
        self.position = Position(self.format, fingerprint=self._fingerprint(), stamp=stamp_of(path))

    def _fingerprint(self) -> str:
        labels = b"" if self._y is None else self._y[:8192].tobytes()
        return digest(self._X.shape, self._label, self.dtype, labels)

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same arrays saved."""
        self._check_position(position, self._fingerprint(), stamp_of(self._path))
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        n = self._X.shape[0]
        while self.position.line <= n:
            begin = self.position.line - 1
            stop = min(n, begin + self.chunk_rows)
            part = self._X[begin:stop]
            # values too large for the type and signalling NaNs are refused below
            with np.errstate(over="ignore", invalid="ignore"):
                y = None if self._y is None else self._y[begin:stop].astype(np.float64)
                if self._label is not None:
                    y = part[:, self._label].astype(np.float64)
                    part = np.delete(part, self._label, axis=1)
                X = np.array(part, dtype=self.dtype, order="C")
            good = np.isfinite(X).all(axis=1)
            if y is not None:
                good &= np.isfinite(y)
            lines, reason = (
                np.arange(begin + 1, stop + 1),
                "a value is NaN or infinite; impute it first",
            )
            refused = [(line, reason) for line in lines[~good].tolist()]
            if refused:
                X, lines, y = X[good], lines[good], None if y is None else y[good]
            first_row = self._advance(str(self._path), stop + 1, len(X), refused)
            if len(X):
                yield Chunk(X, y, None, first_row, lines, self.position)
        if self.position.row == 0:
            raise self._nothing_read(str(self._path))
