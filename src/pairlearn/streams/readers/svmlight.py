# SPDX-License-Identifier: BSD-3-Clause
"""Read svmlight (LIBSVM) text in chunks of sparse rows, by scikit-learn's parser."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError, digest
from pairlearn.streams.readers.files import TextSource, is_path, stamp_of
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: The largest index, so that the number of features fits into 32 bits.
LARGEST_INDEX = (1 << 31) - 2
#: A width found in the data is accepted up to this limit, or up to one feature per byte of text.
PLAUSIBLE_WIDTH = 1 << 24
#: Bytes of text in a chunk, about.
_BLOCK = 1 << 21
#: Characters of a text in a message.
_SHOWN = 40
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
_ENTRY = re.compile(r"(\d+):(\S+)", re.ASCII)
_QUERY = re.compile(r"qid:\d{1,18}", re.ASCII)


class SvmlightReader(Reader):
    r"""Chunks of sparse rows from svmlight text.

    A line is ``label [qid:q] index:value ... [# comment]``.

    Parameters
    ----------
    sources : path, "-", binary file object, or list of these
        Files to read one after the other, plain or compressed; ``"-"`` is standard input.
    n_features : int, optional
        Number of features. Without it the files are first read once to find the largest index;
        pipes do not allow this. An index that is implausibly large for the size of the text is
        then an error.
    zero_based : bool, default False
        Whether the first feature has index 0 in the file; LIBSVM files count from 1.
    qid : bool, default False
        Whether to deliver the query of each row; rows without one are then refused.
    classes : sequence of numbers, optional
        The labels to expect; a row with another label is refused.
    dtype : "float64" or "float32"
        Type of the features.
    chunk_rows : int, default 8192
        Largest number of rows in a chunk.
    strict : bool, default False
        Stop at the first unusable row.

    Examples
    --------
    >>> import io
    >>> text = io.BytesIO(b"1 qid:3 1:0.5 4:2\n-1 qid:3 2:5e-1 # second\n")
    >>> [chunk] = SvmlightReader(text, n_features=4, qid=True)
    >>> chunk.X.toarray(), chunk.y, chunk.qid
    (array([[0.5, 0. , 0. , 2. ],
           [0. , 0.5, 0. , 0. ]]), array([ 1., -1.]), array([3, 3]))
    """

    format = "svmlight"

    def __init__(
        self,
        sources: Any,
        *,
        n_features: int | None = None,
        zero_based: bool = False,
        qid: bool = False,
        classes: tuple[float, ...] | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        chunk_rows: int = 8192,
        strict: bool = False,
    ) -> None:
        super().__init__(strict=strict)
        self.sources = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        if not self.sources:
            raise ReadError("there is no file to read; name at least one.")
        if dtype not in ("float64", "float32"):
            raise ReadError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
        self.zero_based, self.qid, self.dtype = zero_based, qid, dtype
        self.classes = None if classes is None else tuple(float(c) for c in classes)
        self.chunk_rows = check_count("chunk_rows", chunk_rows)
        self._searched = n_features is None
        self.n_features = LARGEST_INDEX
        if n_features is None:
            n_features = self._search_width()
        self.n_features = check_count("n_features", n_features)
        if self.n_features > LARGEST_INDEX:
            raise ReadError(f"n_features must be at most {LARGEST_INDEX}, got {n_features}.")
        self.feature_names = None
        self._source = self._open(0)
        self.position = Position(
            self.format, fingerprint=self._fingerprint(), width=self.n_features,
            stamp=stamp_of(self.sources[0]),
        )  # fmt: skip

    def _open(self, index: int) -> TextSource:
        source = TextSource(self.sources[index])
        if index == 0 and source.is_empty:
            source.close()
            raise ReadError(f"{source.name} is empty; check that it was written completely.")
        return source

    def _search_width(self) -> int:
        """Read all files and return the number of features."""
        if not all(map(is_path, self.sources)):
            raise ReadError(
                "a pipe cannot be searched for its number of features; "
                "pass n_features (any number at least as large as the largest index)."
            )
        highest, n_bytes = -1, 0
        for index in range(len(self.sources)):
            source = self._open(index)
            for lines in _blocks(source, 1 << 62):
                for X, _, _, _, reason in self._parsed(lines, 0):
                    if not reason:
                        highest = max(highest, int(X.indices.max(initial=-1)))
            n_bytes += source.offset
        width = highest + 1
        if width > max(PLAUSIBLE_WIDTH, n_bytes):
            raise ReadError(
                f"{source.name}: the largest index is {width - self.zero_based}, in "
                f"{n_bytes} bytes of text; a model would take memory for all features up to it. "
                f"Correct the index, or pass n_features={width} if it is right."
            )
        return max(1, width)

    @property
    def bytes_read(self) -> int:
        """Bytes of the present file read so far."""
        return self._source.offset

    def _fingerprint(self) -> str:
        width = 0 if self._searched else self.n_features
        options = (self.zero_based, self.qid, self.classes, self.dtype)
        return digest(options, width)

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same data saved."""
        if not 0 <= position.file < len(self.sources):
            raise ReadError("the saved position names a file that is not among the sources.")
        stamp = stamp_of(self.sources[position.file])
        self._check_position(position, self._fingerprint(), stamp)
        fresh = position.file == self.position.file and self.position.line == 1
        if not fresh or is_path(self.sources[position.file]):
            self._source = self._open(position.file)
        self.n_features = position.width
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        for index in range(self.position.file, len(self.sources)):
            if index != self.position.file:
                self._source = self._open(index)
                stamp = stamp_of(self.sources[index])
                self.position = replace(self.position, file=index, line=1, stamp=stamp)
            at, skip = 0, self.position.line - 1
            for lines in _blocks(self._source, self.chunk_rows):
                at += len(lines)
                if at > skip:
                    chunk = self._chunk(lines[-(at - skip) :], at)
                    skip = at
                    if len(chunk):
                        yield chunk
        if self.position.row == 0:
            raise self._nothing_read(self._source.name)

    def _chunk(self, lines: list[bytes], stop: int) -> Chunk:
        """Return the rows of some lines, of which the last has the number `stop`."""
        from scipy import sparse

        parts = list(self._parsed(lines, stop - len(lines) + 1))
        found = [part for part in parts if not part[4]]
        refused = [(int(part[3][0]), part[4]) for part in parts if part[4]]
        shape = (0, self.n_features)
        X: Any = sparse.csr_matrix(shape, dtype=self.dtype)
        y, qid, numbers = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        if found:
            X = sparse.vstack([part[0] for part in found], format="csr")
            y = np.concatenate([part[1] for part in found])
            qid = np.concatenate([part[2] for part in found])
            numbers = np.concatenate([part[3] for part in found])
        first_row = self._advance(self._source.name, stop + 1, len(y), refused)
        return Chunk(X, y, qid if self.qid else None, first_row, numbers, self.position)

    def _parsed(
        self, lines: list[bytes], first: int
    ) -> Iterator[tuple[Any, Vector, Any, Any, str]]:
        """Yield features, labels, queries and lines of rows, or one bad line with the reason.

        Lines that cannot be parsed together are halved until the bad ones are alone.
        """
        numbers = np.arange(first, first + len(lines))
        try:
            X, y, qid = self._load(lines)
        except (ValueError, IndexError, OverflowError):
            if len(lines) == 1:
                reason = self._explain(lines[0].partition(b"#")[0])
                yield None, np.empty(0), None, numbers, reason
                return
            half = len(lines) // 2
            yield from self._parsed(lines[:half], first)
            yield from self._parsed(lines[half:], first + half)
            return
        if len(y) < len(lines):
            numbers = numbers[[bool(line.partition(b"#")[0].strip()) for line in lines]]
        if len(y):
            yield X, y, qid, numbers, ""

    def _load(self, lines: list[bytes]) -> tuple[Any, Vector, Any]:
        from sklearn.datasets import load_svmlight_file

        X, y, qid = load_svmlight_file(
            io.BytesIO(b"".join(lines)), zero_based=self.zero_based, query_id=True,
            n_features=self.n_features,
        )  # fmt: skip
        if self.qid and len(qid) != len(y):
            raise ValueError
        with np.errstate(over="ignore"):
            X = X.astype(self.dtype, copy=False)
        good = np.isfinite(X.data).all() and np.isfinite(y).all()
        if not good or (self.classes is not None and not np.isin(y, self.classes).all()):
            raise ValueError
        return X, y, qid

    def _explain(self, line: bytes) -> str:
        """Return why a line cannot be used."""
        label, *entries = (part.decode("utf-8", "replace") for part in line.split())
        if not _NUMBER.fullmatch(label):
            return f"label: {_shown(label)} is not a number"
        if np.isnan(float(label)):
            return "the label is missing; leave an absent feature out of the line"
        if np.isinf(float(label)):
            return f"label: {_shown(label)} is infinite"
        if self.classes is not None and float(label) not in self.classes:
            return f"label {float(label)!r} is not among the classes {self.classes!r}"
        before = -1
        if entries and entries[0].startswith("qid"):
            if not _QUERY.fullmatch(entries[0]):
                return f"{_shown(entries[0])} is not qid:NUMBER directly after the label"
            del entries[0]
        elif self.qid:
            return "the query is missing; write qid:NUMBER after the label"
        for entry in entries:
            found = _ENTRY.fullmatch(entry)
            if found is None:
                if entry.startswith("qid"):
                    return f"{_shown(entry)} is not qid:NUMBER directly after the label"
                return f"{_shown(entry)} is not index:value"
            if not _NUMBER.fullmatch(found[2]):
                return f"feature {found[1][:20]}: {_shown(found[2])} is not a number"
            index, value = int(found[1][:20]), float(found[2])
            if index == 0 and not self.zero_based:
                return (
                    f"{_shown(entry)}: index 0 in a file that counts from 1; pass zero_based=True"
                )
            if index <= before:
                return f"{_shown(entry)}: indices must ascend; sort the features of the line"
            if index - (not self.zero_based) >= self.n_features:
                return (
                    f"{_shown(entry)}: the index is beyond n_features={self.n_features}; "
                    "raise n_features"
                )
            if np.isnan(value):
                return f"the value of {index} is missing; leave an absent feature out of the line"
            if np.isinf(value):
                return f"feature {index}: {_shown(found[2])} is infinite"
            if abs(value) > float(np.finfo(self.dtype).max):
                return f"feature {index} is too large for float32"
            before = index
        return "it is not a line of svmlight"


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else repr(text[:_SHOWN]) + "..."


def _blocks(source: TextSource, most: int) -> Iterator[list[bytes]]:
    """Yield the lines of a text in blocks of at most `most` lines; the source is closed."""
    rest = b""
    try:
        while True:
            part = source.read(_BLOCK)
            data = rest + part
            end = data.rfind(b"\n") + 1 if part else len(data)
            rest = data[end:]
            if source.offset == len(part):
                data = data.removeprefix(b"\xef\xbb\xbf")
            lines = data[: len(data) - len(rest)].splitlines(keepends=True)
            for begin in range(0, len(lines), most):
                yield lines[begin : begin + most]
            if not part:
                return
            if len(rest) > 1 << 25:
                raise ReadError(
                    f"{source.name} has a line longer than {1 << 25} bytes; check the line ends."
                )
    finally:
        source.close()
