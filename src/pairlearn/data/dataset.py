# SPDX-License-Identifier: BSD-3-Clause
"""Load a data set by name: find or fetch its file, verify it, turn labels into signs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairlearn.data.cache import cache_folder, find_file
from pairlearn.data.download import download
from pairlearn.data.errors import DataCorruptError, DataUnavailableError
from pairlearn.data.labels import to_signs
from pairlearn.data.libsvm import parse_libsvm, read_text, text_digest
from pairlearn.data.sources import Source, lookup
from pairlearn.typing import Vector


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples, their signs, and their origin.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n, d)
        The examples, as in the file: not scaled.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    name : str
        The requested name.
    rule : str
        How labels became signs.
    classes : tuple of float
        The labels of the file, sorted.
    origin : str
        The file it was read from, or "scikit-learn".
    sha256 : str
        The digest of the decompressed text, or of the arrays if there is no text.
    feature_names : tuple of str
        The names of the features; may be empty.
    """

    X: Any
    y: Vector
    name: str
    rule: str
    classes: tuple[float, ...]
    origin: str
    sha256: str
    feature_names: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """The number of examples."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    @property
    def n_positive(self) -> int:
        """The number of positive examples."""
        return int(np.count_nonzero(self.y > 0))

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, n={self.n}, d={self.d}, n_positive={self.n_positive})"


def find(name: str) -> Path | None:
    """Return the file of a data set, or None if it is nowhere on this machine."""
    source = lookup(name)
    return None if source.built_in else find_file(source)


def load(
    name: str,
    *,
    download_missing: bool = True,
    verify_digest: bool = True,
    dense: bool | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Dataset:
    """Load a data set by name.

    The search order is the folder that ``PAIRLEARN_DATA`` names, the cache, the LIBSVM site.

    Parameters
    ----------
    name : str
        A name that `names` lists, or the paper's short name.
    download_missing : bool, default=True
        Whether to fetch a set that is not on this machine.
    verify_digest : bool, default=True
        Whether to check the sha256 if it is known. Shape and classes are always checked.
    dense : bool, optional
        Whether X is an array; the default depends on the data set.
    progress : callable, optional
        Called with the bytes so far and the total while fetching.

    Returns
    -------
    Dataset
        Examples and signs.

    Examples
    --------
    >>> load("breast_cancer")
    Dataset('breast_cancer', n=569, d=30, n_positive=357)
    """
    source = lookup(name)
    if source.built_in:
        return _built_in(source, name)
    path = find_file(source)
    if path is None:
        if not download_missing:
            raise DataUnavailableError(
                f"{name} is not on this machine; run `python -m pairlearn.data fetch {name}`, or "
                "put the "
                "file into the folder that PAIRLEARN_DATA names."
            )
        path = fetch(source, progress=progress, verify_digest=verify_digest)
    X, labels, digest = verify(source, path, verify_digest=verify_digest, dense=dense)
    return _made(source, name, X, labels, str(path), digest)


def fetch(
    source: Source,
    *,
    folder: Path | None = None,
    verify_digest: bool = True,
    progress: Callable[[int, int | None], None] | None = None,
    **options: Any,
) -> Path:
    """Fetch the file of a data set into the cache or into `folder`, and verify it.

    Shape and classes are always checked, the digest if it is known. `options` go to `download`.
    """
    if source.built_in:
        raise ValueError(f"{source.name} ships with scikit-learn; there is nothing to fetch.")
    target = (folder or cache_folder()) / source.file_name
    digests = []

    def check(path: Path) -> None:
        _, labels, digest = verify(source, path, verify_digest=verify_digest)
        _signs(source, labels, source.address)
        digests.append(digest)

    download(source.address, target, check=check, progress=progress, **options)
    # if no digest is published, record the first one seen, to notice later damage
    _recorded(target).write_text(digests[0] + "\n", encoding="utf-8")
    return target


def verify(
    source: Source, path: Path, *, verify_digest: bool = True, dense: bool | None = None
) -> tuple[Any, Vector, str]:
    """Check a file against `lookup`; return X, labels and the sha256 of the text.

    A wrong digest, number of examples, features or classes raises a DataCorruptError.
    """
    text = read_text(path)
    digest = text_digest(text)
    recorded = _recorded(path)
    if verify_digest and recorded.is_file():
        expected = recorded.read_text(encoding="utf-8").strip()
        if digest != expected:
            raise _wrong_digest(path, digest, expected)
    elif (
        verify_digest
        and source.sha256
        and digest not in source.sha256
        # the site's archive may hold other bytes than the text with the known digest
        and not (source.archive_md5 and _archive_md5(path) == source.archive_md5)
    ):
        raise _wrong_digest(path, digest, source.sha256[0])
    dense = not source.sparse if dense is None else dense
    X, labels = parse_libsvm(text, dense=dense, origin=str(path))
    n, d = X.shape
    n_classes = len(np.unique(labels))
    if n != source.n or d > source.d or n_classes != source.n_classes:
        raise DataCorruptError(
            f"{path} holds {n} examples, {d} features and {n_classes} classes, but {source.name} "
            f"has {source.n}, {source.d} and {source.n_classes}; fetch it again, or read another "
            "file with read_libsvm(path)."
        )
    if d < source.d:
        # the last features may be zero in every example
        X, labels = parse_libsvm(text, n_features=source.d, dense=dense, origin=str(path))
    return X, labels, digest


def _signs(source: Source, labels: Vector, origin: str) -> Vector:
    try:
        return to_signs(labels, source.rule)
    except DataCorruptError as error:
        raise DataCorruptError(f"{origin}: {error}") from None


def _recorded(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _archive_md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _wrong_digest(path: Path, digest: str, expected: str) -> DataCorruptError:
    return DataCorruptError(
        f"{path} has sha256 {digest[:12]}..., expected {expected[:12]}...; delete it and fetch it "
        "again, or take it as it is with verify_digest=False if you know what it is."
    )


def array_digest(*arrays: Vector) -> str:
    """Return the sha256 of the bytes of arrays, for data without a text."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


def _built_in(source: Source, name: str) -> Dataset:
    """Load a data set that ships with scikit-learn."""
    from sklearn import datasets

    loaders = {
        "breast_cancer": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
        "digits_8": datasets.load_digits,
    }
    bunch = loaders[source.name]()
    X = np.ascontiguousarray(bunch.data, dtype=np.float64)
    labels = np.asarray(bunch.target, dtype=np.float64)
    names = tuple(map(str, bunch.feature_names))
    return _made(source, name, X, labels, "scikit-learn", array_digest(X, labels), names)


def _made(source: Source, name: str, X: Any, labels: Vector, origin: str, *others: Any) -> Dataset:
    """Return the data set; `others` are its digest and the names of its features."""
    y, classes = _signs(source, labels, origin), tuple(float(label) for label in np.unique(labels))
    return Dataset(X, y, name, str(source.rule), classes, origin, *others)
