# SPDX-License-Identifier: BSD-3-Clause
"""Read the LIBSVM text format, plain or compressed.

A line is ``label index:value index:value ...`` with indices from 1 in ascending order; omitted
values are zero.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from pairlearn.data.compressed import Decompressed
from pairlearn.data.errors import DataCorruptError
from pairlearn.typing import Vector

_KINDS = {".xz": "xz", ".bz2": "bzip2", ".gz": "gzip"}

#: Suffixes of a file, in the order of the search.
SUFFIXES = ("", *_KINDS)


def read_text(path: str | Path) -> bytes:
    """Return the decompressed bytes of a file; its suffix .xz, .bz2 or .gz tells the compression.

    A damaged or truncated file raises a DataCorruptError.
    """
    path = Path(path)
    kind = _KINDS.get(path.suffix)
    if kind is None:
        return path.read_bytes()
    try:
        with open(path, "rb") as file:
            if kind == "gzip":
                return gzip.GzipFile(fileobj=file).read()
            return io.BufferedReader(Decompressed(file, kind), 1 << 16).read()
    except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError)):
            raise
        raise DataCorruptError(
            f"{path} is truncated or damaged ({error}); delete it and fetch it again."
        ) from error


def text_digest(text: bytes) -> str:
    """Return the sha256 of a text in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def parse_libsvm(
    text: bytes, *, n_features: int | None = None, dense: bool = True, origin: str = "the text"
) -> tuple[Any, Vector]:
    r"""Return (X, labels) of a LIBSVM text, X as a dense array or as a CSR matrix.

    X has `n_features` columns, by default the highest index. Errors name the text `origin`.
    """
    from sklearn.datasets import load_svmlight_file

    if not text.strip():
        raise DataCorruptError(f"{origin} is empty; delete it and fetch it again.")
    try:
        X, labels = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=False)
    except (ValueError, IndexError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise DataCorruptError(
            f"{origin} is not LIBSVM text ({reason}); lines read 'label index:value ...' with "
            "indices from 1. A cut-off file should be fetched again."
        ) from error
    if not np.isfinite(X.data).all() or not np.isfinite(labels).all():
        raise DataCorruptError(f"{origin} contains NaN or infinity; remove or impute these values.")
    labels = np.asarray(labels, dtype=np.float64)
    return (np.ascontiguousarray(X.toarray()) if dense else X.tocsr()), labels


def read_libsvm(
    path: str | Path, *, n_features: int | None = None, dense: bool = True
) -> tuple[Any, Vector]:
    """Return (X, labels) of a LIBSVM file, plain or compressed with xz, bz2 or gzip.

    Parameters
    ----------
    path : str or Path
        The file.
    n_features : int, optional
        The number of columns; by default the highest index in the file.
    dense : bool, default=True
        Whether X is an array; otherwise it is a CSR matrix.

    Returns
    -------
    X : ndarray or csr_matrix of shape (n, d)
        The examples.
    labels : ndarray of shape (n,)
        The labels as written; `to_signs` turns them into -1 and +1.
    """
    return parse_libsvm(read_text(path), n_features=n_features, dense=dense, origin=str(path))
