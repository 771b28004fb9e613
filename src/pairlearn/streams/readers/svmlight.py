# SPDX-License-Identifier: BSD-3-Clause
"""Read svmlight (LIBSVM) text in chunks of sparse rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Chunk, Position, ReadError, digest
from pairlearn.streams.readers.byte_window import MAX_LINE_BYTES, Blocks, TextReader, too_long
from pairlearn.streams.readers.row_buffer import (
    RefusedFieldError,
    RowChecker,
    parse_number,
    shown,
    unexpected_label,
)
from pairlearn.validation import check_count

#: The largest index, so that the number of features fits into 32 bits.
LARGEST_INDEX = (1 << 31) - 2
#: A width found in the data is accepted up to this limit, or up to one feature per byte of text.
PLAUSIBLE_WIDTH = 1 << 24
ENTRIES = 1 << 18  # a chunk ends after the row that reaches this number of entries


class SvmlightReader(TextReader):
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
    max_line_bytes : int, default 32 MiB
        Longer lines are refused.

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
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        super().__init__(sources, strict=strict, max_line_bytes=max_line_bytes)
        if dtype not in ("float64", "float32"):
            raise ReadError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
        self.zero_based = zero_based
        self.qid = qid
        self.classes = None if classes is None else tuple(float(c) for c in classes)
        self.dtype = dtype
        self.chunk_rows = check_count("chunk_rows", chunk_rows)
        self._searched = n_features is None
        if n_features is None:
            n_features = self._search_width()
        self.n_features = check_count("n_features", n_features)
        if self.n_features > LARGEST_INDEX:
            raise ReadError(f"n_features must be at most {LARGEST_INDEX}, got {n_features}.")
        self.feature_names = None
        self._open_file(0)
        self.position = self._place(Position(self.format))

    def _search_width(self) -> int:
        """Read all files and return the number of features."""
        for source in self.sources:
            if (not isinstance(source, str) and hasattr(source, "read")) or source == "-":
                raise ReadError(
                    "a pipe cannot be searched for its number of features; "
                    "pass n_features (any number at least as large as the largest index)."
                )
        self.n_features = LARGEST_INDEX
        width = n_bytes = 0
        for index in range(len(self.sources)):
            self._open_file(index)
            parser = _Parser(self)
            checker = _Uncounted(self, None, self._blocks.source.name)
            while parser.fill(self._blocks, 1, checker).count:
                pass
            width = max(width, parser.highest + 1)
            n_bytes += self._blocks.source.offset
            self._blocks.source.close()
        if width > max(PLAUSIBLE_WIDTH, n_bytes):
            raise ReadError(
                f"{self._blocks.source.name}: the largest index is {width - self.zero_based}, in "
                f"{n_bytes} bytes of text; a model would take memory for all features up to it. "
                f"Correct the index, or pass n_features={width} if it is right."
            )
        return max(1, width)

    def _open_file(self, index: int) -> None:
        super()._open_file(index)
        if index == 0 and self._blocks.source.is_empty:
            raise ReadError(
                f"{self._blocks.source.name} is empty; check that it was written completely."
            )

    def _fingerprint(self) -> str:
        options = (self.zero_based, self.qid, self.classes, self.dtype, self.chunk_rows)
        width = 0 if self._searched else self.n_features
        return digest(options, width, self.max_line_bytes)

    def _place(self, before: Position) -> Position:
        return replace(super()._place(before), width=self.n_features)

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same data saved."""
        super().restore(position)
        self.n_features = position.width

    def _file_chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the present file."""
        from scipy.sparse import csr_matrix

        for rows, first_row in self._parsed(_Parser(self)):
            n, nnz = rows.count, int(rows.indptr[rows.count])
            X = csr_matrix(
                (rows.data[:nnz], rows.indices[:nnz], rows.indptr[: n + 1]),
                shape=(n, self.n_features),
            )
            yield Chunk(
                X,
                rows.labels[:n],
                rows.queries[:n] if self.qid else None,
                first_row,
                rows.lines[:n],
                self.position,
            )


class _Uncounted(RowChecker):
    """Ignore unusable rows while the files are searched for the largest index."""

    def flush(self) -> None:
        self._pending.clear()


class _Rows:
    """Arrays for the rows of one chunk in compressed sparse form."""

    def __init__(self, capacity: int, n_entries: int, dtype: str) -> None:
        self.data: NDArray[Any] = np.empty(n_entries, dtype=dtype)
        self.indices = np.empty(n_entries, dtype=np.int32)
        self.indptr = np.zeros(capacity + 1, dtype=np.int32)
        self.labels = np.empty(capacity)
        self.queries = np.empty(capacity, dtype=np.int64)
        self.lines = np.empty(capacity, dtype=np.int64)
        self.count = 0

    def grow(self) -> None:
        """Double the room for entries."""
        size = 2 * len(self.data)
        self.data = np.resize(self.data, size)
        self.indices = np.resize(self.indices, size)

    def drop(self, begin: int, stop: int, marked: set[int]) -> None:
        """Drop the marked rows among ``begin:stop``."""
        count, entries = begin, int(self.indptr[begin])
        first = self.indptr[begin : stop + 1].copy()
        for row in range(begin, stop):
            left, right = first[row - begin], first[row - begin + 1]
            if row in marked:
                continue
            for array in (self.data, self.indices):
                array[entries : entries + right - left] = array[left:right]
            for array in (self.labels, self.queries, self.lines):
                array[count] = array[row]
            entries += int(right - left)
            count += 1
            self.indptr[count] = entries
        self.count = count


class _Parser:
    """Run the compiled parser over the blocks of one source until a chunk is full."""

    def __init__(self, reader: SvmlightReader) -> None:
        from pairlearn.kernels.parsing import records, svmlight

        self._svmlight, self._records = svmlight, records
        self._reader = reader
        self._deferred = np.empty((4096, records.DEFERRED_WIDTH), dtype=np.int64)
        self._problems = np.empty((256, records.PROBLEM_WIDTH), dtype=np.int64)
        self._capacity = ENTRIES + (ENTRIES >> 2)
        self.line = 1
        self.highest = -1

    def fill(self, blocks: Blocks, line: int, checker: RowChecker) -> _Rows:
        """Parse until the chunk is full or the source ends."""
        records, reader = self._records, self._reader
        rows = _Rows(reader.chunk_rows, self._capacity, reader.dtype)
        state = np.zeros(records.STATE_SIZE, dtype=np.int64)
        state[records.LINE] = line
        state[records.HIGHEST] = self.highest
        while True:
            state[records.POSITION] = blocks.start
            state[records.ROW] = rows.count
            state[records.N_ENTRIES] = rows.indptr[rows.count]
            state[[records.N_DEFERRED, records.N_PROBLEMS]] = 0
            arrays = (rows.data, rows.indices, rows.indptr, rows.labels, rows.queries, rows.lines)
            self._svmlight.parse_svmlight(
                blocks.address, blocks.end, blocks.final, blocks.max_line_bytes,
                0 if reader.zero_based else 1, reader.n_features, arrays, reader.chunk_rows,
                ENTRIES, (self._deferred, self._problems, state),
            )  # fmt: skip
            blocks.start = int(state[records.POSITION])
            self._collect(blocks, state, rows, checker)
            checker.flush()
            status = state[records.STATUS]
            if status == records.ENTRIES_FULL:
                rows.grow()
                self._capacity = len(rows.data)
            elif status == records.DEFERRED_FULL and not state[records.N_DEFERRED]:
                self._deferred = np.empty((2 * len(self._deferred), 5), dtype=np.int64)
            elif status == records.DONE:
                # deliver a full chunk before waiting for more of a slow pipe
                full = rows.count == reader.chunk_rows or rows.indptr[rows.count] >= ENTRIES
                if blocks.final or full:
                    break
                if not blocks.too_long:
                    blocks.refill()
                else:
                    checker.refuse(int(state[records.LINE]), too_long(blocks.max_line_bytes))
                    blocks.skip_line()
                    state[records.LINE] += 1
            elif status == records.ROWS_FULL and (
                rows.count == reader.chunk_rows or rows.indptr[rows.count] >= ENTRIES
            ):
                break
        checker.flush()
        self.line = int(state[records.LINE])
        self.highest = int(state[records.HIGHEST])
        return rows

    def _collect(
        self, blocks: Blocks, state: NDArray[np.int64], rows: _Rows, checker: RowChecker
    ) -> None:
        """Parse the fields that the kernel left open and drop unusable rows."""
        records, reader = self._records, self._reader
        begin, stop = rows.count, int(state[records.ROW])
        for line, reason, detail, place in self._problems[: state[records.N_PROBLEMS]].tolist():
            near = blocks.take(place, min(place + 40, blocks.end)).split("\n")[0]
            checker.refuse(line, self._explain(reason, detail, near.split(" ")[0]))
        for row, entry, first, last, _ in self._deferred[: state[records.N_DEFERRED]].tolist():
            try:
                value = parse_number(blocks.take(first, last), ())
            except RefusedFieldError as error:
                what = "label" if entry < 0 else f"feature {self._index(rows, entry)}"
                checker.mark(row, f"{what}: {error}")
                continue
            if entry >= 0:
                with np.errstate(over="ignore"):  # overflow of float32 is refused below
                    rows.data[entry] = value
            else:
                rows.labels[row] = value
            if np.isnan(value):
                what = "the label" if entry < 0 else f"the value of {self._index(rows, entry)}"
                checker.mark(row, f"{what} is missing; leave an absent feature out of the line")
        if reader.dtype == "float32":
            part = slice(int(rows.indptr[begin]), int(rows.indptr[stop]))
            for entry in np.flatnonzero(np.isinf(rows.data[part])).tolist():
                entry += part.start
                row = int(np.searchsorted(rows.indptr[: stop + 1], entry, side="right")) - 1
                checker.mark(row, f"feature {self._index(rows, entry)} is too large for float32")
        if reader.classes is not None:
            known = np.isin(rows.labels[begin:stop], reader.classes)
            for row in np.flatnonzero(~known).tolist():
                label = repr(float(rows.labels[begin + row]))
                checker.mark(begin + row, unexpected_label(label, reader.classes))
        if reader.qid:
            for row in np.flatnonzero(rows.queries[begin:stop] < 0).tolist():
                checker.mark(begin + row, "the query is missing; write qid:NUMBER after the label")
        rows.count = stop
        if checker.marked:
            for row, reason in checker.marked.items():
                checker.refuse(int(rows.lines[row]), reason)
            rows.drop(begin, stop, set(checker.marked))
            checker.marked.clear()

    def _index(self, rows: _Rows, entry: int) -> int:
        return int(rows.indices[entry]) + (not self._reader.zero_based)

    def _explain(self, reason: int, detail: int, near: str) -> str:
        """Return the reason for refusing a line."""
        records = self._records
        if reason == records.TOO_LONG:
            return too_long(self._reader.max_line_bytes)
        if reason == records.BAD_QID:
            return f"{shown(near)} is not qid:NUMBER directly after the label"
        if reason == records.NOT_ASCENDING:
            return f"{shown(near)}: indices must ascend; sort the features of the line"
        if reason == records.INDEX_TOO_SMALL:
            return f"{shown(near)}: index 0 in a file that counts from 1; pass zero_based=True"
        if reason == records.INDEX_TOO_LARGE:
            return (
                f"{shown(near)}: the index is beyond n_features={self._reader.n_features}; "
                "raise n_features"
            )
        return f"{shown(near)} is not index:value"
