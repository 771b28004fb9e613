# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of rows from CSV and other delimited text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pairlearn.streams.readers.base import ReadError, digest
from pairlearn.streams.readers.csv_file import CsvFile
from pairlearn.streams.readers.schema import Schema
from pairlearn.streams.readers.tabular import TabularReader


class CsvReader(TabularReader):
    r"""Chunks of rows from delimited text: plain, gzip, xz, bzip2 or zstd; files, URLs or a pipe.

    polars splits and parses the text. Quotes, doubled quotes and line breaks inside quotes follow
    RFC 4180; lines may end with ``\n`` or ``\r\n``; blank lines are skipped. A number is the
    double nearest to the decimal in the file. An unusable row (wrong number of fields, not a
    number, infinite, a missing value under ``missing="refuse"``, an unexpected label) is refused,
    counted and reported; with `strict`, reading stops there.

    Parameters
    ----------
    sources : path, URL, "-", binary file object, or list of these
        Files to read one after the other; ``"-"`` is standard input.
    schema : Schema
        Which columns to take, and how.
    header : bool, default True
        Whether the first line names the columns. Without it they are ``"0"``, ``"1"``, ...
    names : sequence of str, optional
        Names that replace those in the file.
    delimiter : str, default ","
        One character between fields.
    chunk_rows : int, optional
        Rows in a chunk at most; by default a chunk takes about 4 MB.
    strict : bool, default False
        Stop at the first unusable row.

    Examples
    --------
    >>> import io
    >>> text = io.BytesIO(b"age,income,target\n20,1.5,0\n30,2.5,1\n40,x,1\n")
    >>> reader = CsvReader(text, Schema(label="target"))
    >>> [chunk] = reader
    >>> chunk.X, chunk.y
    (array([[20. ,  1.5], [30. ,  2.5]]), array([0., 1.]))
    >>> print(reader.refusals)
    1 row refused; first: BytesIO:4: column 'income': 'x' is not a number
    """

    format = "csv"

    def __init__(
        self,
        sources: Any,
        schema: Schema,
        *,
        header: bool = True,
        names: Sequence[str] | None = None,
        delimiter: str = ",",
        chunk_rows: int | None = None,
        strict: bool = False,
    ) -> None:
        self._header = header
        self._given_names = None if names is None else tuple(names)
        self._options: dict[str, Any] = {"header": header, "delimiter": delimiter}
        files = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        super().__init__(files, schema, chunk_rows=chunk_rows, strict=strict)

    def _open(self, index: int) -> CsvFile:
        file = CsvFile(self.files[index], **self._options)
        if self._given_names is not None and file.names:
            if len(self._given_names) != len(file.names):
                raise ReadError(
                    f"names has {len(self._given_names)} entries and {file.name} has "
                    f"{len(file.names)} columns; give one name for each."
                )
            file.names = self._given_names
        return file

    @property
    def bytes_read(self) -> int:
        """Bytes of the present file read so far."""
        return int(self._file.bytes_read)

    def _fingerprint(self) -> str:
        return digest(super()._fingerprint(), self._options)

    def _nothing_read(self, name: str) -> ReadError:
        if self.refusals.count or not self._header:
            return super()._nothing_read(name)
        return ReadError(f"{name} has a header and no rows; check that it was written fully.")
