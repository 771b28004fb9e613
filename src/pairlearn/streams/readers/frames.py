# SPDX-License-Identifier: BSD-3-Clause
"""Any source as polars frames with the names of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.csv_file import CsvFile
from pairlearn.streams.readers.files import is_path
from pairlearn.streams.readers.open import find_format

Refuse = Callable[[str, int, str], None]


def read_frames(
    source: Any,
    *,
    format: str | None = None,
    texts: bool = True,
    batch_rows: int = 16_384,
    header: bool = True,
    delimiter: str | None = None,
    line: str | None = None,
    refuse: Refuse | None = None,
) -> Iterator[Any]:
    r"""Yield the rows of a source as polars frames.

    Parameters
    ----------
    source : path, URL, folder, `Queried`, "-", binary file, list of these, or iterable of frames
        What to read. Frames may be of pandas, polars, PyArrow or whatever narwhals knows.
    format : str, optional
        "csv", "tsv", "parquet", "arrow" or "duckdb"; by default found from the first bytes.
    texts : bool, default=True
        Whether every column of a delimited text holds texts, as they stand in the file; otherwise
        polars finds the types.
    batch_rows : int, default=16384
        Rows of a frame at most.
    header, delimiter
        As for `CsvReader`.
    line : str, optional
        The name of a further column with the line or row number of each row.
    refuse : callable, optional
        Called with file, line and reason for each line of a text that is no row. By default such
        lines are left out without a word.

    Yields
    ------
    polars.DataFrame
        Rows, in order.

    Examples
    --------
    >>> import io
    >>> [frame] = read_frames(io.BytesIO(b"age,city\n20,Oslo\n30,\n7\n"), line="line")
    >>> frame.rows()
    [('20', 'Oslo', 2), ('30', '', 3)]
    """
    if (
        not isinstance(source, (list, tuple))
        and not hasattr(source, "read")
        and (not is_path(source) and source != "-")
    ):
        yield from _given(source, batch_rows)
        return
    for one in source if isinstance(source, (list, tuple)) else [source]:
        kind = format or (find_format(one) if is_path(one) else "csv")
        if kind in ("csv", "tsv"):
            mark = delimiter or ("\t" if kind == "tsv" else ",")
            if texts:
                file = CsvFile(one, header=header, delimiter=mark)
                frames = _texts(file, refuse or _say_nothing, line)
            else:
                frames = _typed(one, header, mark, batch_rows)
        elif kind in ("parquet", "arrow", "duckdb"):
            frames = _arrow(one, batch_rows, line)
        else:
            raise ReadError(f"{one} is {kind}, which has no named columns.")
        for frame in frames:
            yield from frame.iter_slices(batch_rows)


def _say_nothing(source: str, line: int, reason: str) -> None:
    return


def _texts(file: CsvFile, refuse: Refuse, line: str | None) -> Iterator[Any]:
    import polars

    if repeated := sorted({name for name in file.names if file.names.count(name) > 1}):
        raise ReadError(f"{file.name} has more than one column named {repeated[0]!r}; rename them.")
    types = dict.fromkeys(range(len(file.names)), polars.String)
    for batch in file.batches(types):
        for number, reason in batch.refused:
            refuse(file.name, number, reason)
        frame = batch.frame.select(f"c{j}" for j in types)
        frame.columns = list(file.names)
        yield frame if line is None else frame.with_columns(polars.Series(line, batch.lines))


def _typed(target: Any, header: bool, delimiter: str, size: int) -> Iterator[Any]:
    import polars

    lazy = polars.scan_csv(target, has_header=header, separator=delimiter)
    yield from lazy.collect_batches(chunk_size=size)


def _arrow(target: Any, size: int, line: str | None) -> Iterator[Any]:
    import polars

    from pairlearn.streams.readers.arrow import files_of, open_arrow, record_batches

    for path in files_of(target):
        file, row = open_arrow(path)[0], 1
        whole = hasattr(file, "iter_batches")
        for batch in file.iter_batches(size) if whole else record_batches(file, size):
            frame = polars.from_arrow(batch)
            if line is not None:
                frame = frame.with_columns(
                    polars.arange(row, row + len(frame), eager=True).alias(line)
                )
            row += len(frame)
            yield frame


def _given(frames: Any, size: int) -> Iterator[Any]:
    import narwhals

    for one in frames:
        yield from narwhals.from_native(one, eager_only=True).to_polars().iter_slices(size)
