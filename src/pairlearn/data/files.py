# SPDX-License-Identifier: BSD-3-Clause
"""The files of data sets: where they are, fetching them, reading the LIBSVM text format.

A line of that format is ``label index:value index:value ...`` with indices from 1 in ascending
order; omitted values are zero.
"""

from __future__ import annotations

import bz2
import http.client
import io
import lzma
import os
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pairlearn.data.sources import DataCorruptError, DataUnavailableError, Source
from pairlearn.typing import Vector

#: What decompresses one stream of a file, by its suffix.
_STREAMS: dict[str, Callable[[], Any]] = {
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".gz": lambda: zlib.decompressobj(31),
}
_CHUNK, _ATTEMPTS, _TIMEOUT = 1 << 16, 3, 30.0


def cache_folder() -> Path:
    """Return the folder of fetched files, which ``PAIRLEARN_CACHE`` may name; it need not exist."""
    if named := os.environ.get("PAIRLEARN_CACHE"):
        return Path(named).expanduser() / "data"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pairlearn" / "data"


def find_file(source: Source) -> Path | None:
    """Return the file of a data set, or None if it must be fetched.

    The folder that ``PAIRLEARN_DATA`` names is searched before the cache. A file may be called by
    the set's name, by its alias or as on the site, with or without ``.libsvm``, plain or
    compressed (.xz, .bz2, .gz).
    """
    folders = [cache_folder()]
    if named := os.environ.get("PAIRLEARN_DATA"):
        folders.insert(0, Path(named).expanduser())
        if not folders[0].is_dir():
            raise DataUnavailableError(
                f"PAIRLEARN_DATA names {named!r}, which is not a folder; correct or unset it."
            )
    on_site = source.file_name
    for suffix in _STREAMS:
        on_site = on_site.removesuffix(suffix)
    for folder in folders:
        for stem in filter(None, (source.name, source.alias, on_site)):
            for middle in (".libsvm", ""):
                for suffix in ("", *_STREAMS):
                    path = folder / f"{stem}{middle}{suffix}"
                    if path.is_file():
                        return path
    return None


def download(
    address: str,
    target: Path,
    *,
    check: Callable[[Path], None] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    pause: float = 1.0,
) -> Path:
    """Fetch a file; it gets its name only when it is complete and `check` has not raised.

    A connection that breaks or is silent is tried again, after a `pause` that doubles. `progress`
    is called with the bytes so far and the total (None if unknown).
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix tells how to decompress, so the check needs the final one.
    part = target.with_name("unverified-" + target.name)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _fetch(address, part, progress)
                break
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
                if refused or attempt == _ATTEMPTS:
                    raise DataUnavailableError(
                        f"cannot fetch {address} ({' '.join(str(error).split())}); check the "
                        "network, or put the file into the folder that PAIRLEARN_DATA names."
                    ) from error
                time.sleep(pause * 2 ** (attempt - 1))
        if check is not None:
            check(part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _fetch(address: str, part: Path, progress: Callable[[int, int | None], None] | None) -> None:
    request = urllib.request.Request(address, headers={"User-Agent": "pairlearn"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response, part.open("wb") as out:
        length, have = response.headers.get("Content-Length"), 0
        total = int(length) if length is not None else None
        while chunk := response.read(_CHUNK):
            have += out.write(chunk)
            if progress is not None:
                progress(have, total)
    if total is not None and have != total:
        raise http.client.IncompleteRead(b"", total - have)


def read_text(path: str | Path) -> bytes:
    """Return the decompressed bytes of a file; its suffix .xz, .bz2 or .gz tells the compression.

    A damaged or truncated file raises a DataCorruptError.
    """
    path = Path(path)
    packed = path.read_bytes()
    if path.suffix not in _STREAMS:
        return packed
    parts = []
    try:
        # Python's own readers ignore what follows a compressed stream.
        while packed:
            stream = _STREAMS[path.suffix]()
            parts.append(stream.decompress(packed))
            if not stream.eof:
                raise EOFError("it ends inside a compressed stream")
            packed = stream.unused_data.lstrip(b"\0")
    except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise DataCorruptError(
            f"{path} is truncated or damaged ({error}); delete it and fetch it again."
        ) from error
    return b"".join(parts)


def parse_libsvm(
    text: bytes, *, n_features: int | None = None, dense: bool = True, origin: str = "the text"
) -> tuple[Any, Vector]:
    """Return (X, labels) of a LIBSVM text, as `read_libsvm` does; errors name the text `origin`."""
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
