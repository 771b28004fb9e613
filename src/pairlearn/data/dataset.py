# SPDX-License-Identifier: BSD-3-Clause
"""Load a data set by name: find or fetch its file, verify it, turn labels into signs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.data.files import cache_folder, download, find_file, parse_libsvm, read_text
from pairlearn.data.sources import DataCorruptError, DataUnavailableError, Source, lookup
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


def to_signs(labels: ArrayLike, positive: float | None = None) -> Vector:
    """Return labels in {-1, +1}.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The labels in the file.
    positive : float, optional
        The label that becomes +1. By default, of two classes, 1 if it occurs, else the larger one;
        of more classes, as in the paper, the first half of them in sorted order.

    Returns
    -------
    ndarray of shape (n,)
        One sign for each example.

    Examples
    --------
    >>> to_signs([1, 2, 2])
    array([ 1., -1., -1.])
    >>> to_signs([3, 1, 2])
    array([-1.,  1., -1.])
    """
    values = np.asarray(labels, dtype=np.float64)
    if not np.isfinite(values).all():
        raise DataCorruptError("the labels contain NaN or infinity; remove or correct these rows.")
    classes = np.unique(values)
    if len(classes) < 2 or (positive is not None and positive not in classes):
        shown = ", ".join(f"{label:g}" for label in classes[:6]) + ", ..." * (len(classes) > 6)
        needed = "" if positive is None else f", one of them labelled {positive:g}"
        raise DataCorruptError(
            f"AUC needs two classes{needed}; the labels are {{{shown}}}. Add examples of the other "
            "class, or name another label."
        )
    if positive is not None:
        chosen = [positive]
    elif len(classes) > 2:
        chosen = list(classes[: len(classes) // 2])
    else:
        chosen = [1.0 if 1.0 in classes else classes[-1]]
    return np.where(np.isin(values, chosen), 1.0, -1.0)


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
        from sklearn import datasets

        bunch = getattr(datasets, f"load_{source.name.removesuffix('_8')}")()
        X = np.ascontiguousarray(bunch.data, dtype=np.float64)
        labels = np.asarray(bunch.target, dtype=np.float64)
        features, origin = tuple(map(str, bunch.feature_names)), "scikit-learn"
        digest = array_digest(X, labels)
    else:
        path = find_file(source)
        if path is None and not download_missing:
            raise DataUnavailableError(
                f"{name} is not on this machine; run `python -m pairlearn.data fetch {name}`, or "
                "put the file into the folder that PAIRLEARN_DATA names."
            )
        path = path or _fetch(source, progress, verify_digest)
        X, labels, digest = verify(source, path, verify_digest=verify_digest, dense=dense)
        features, origin = (), str(path)
    rule = (
        "first half of the sorted classes is +1, the others are -1"
        if source.positive is None
        else f"label {source.positive:g} is +1, the others are -1"
    )
    y, classes = to_signs(labels, source.positive), tuple(np.unique(labels).tolist())
    return Dataset(X, y, name, rule, classes, origin, digest, features)


def _fetch(
    source: Source, progress: Callable[[int, int | None], None] | None, verify_digest: bool
) -> Path:
    """Fetch the file of a data set into the cache, once it is verified; record its digest."""
    digests = []

    def check(path: Path) -> None:
        _, labels, digest = verify(source, path, verify_digest=verify_digest)
        to_signs(labels, source.positive)
        digests.append(digest)

    target = cache_folder() / source.file_name
    download(source.address, target, check=check, progress=progress)
    _recorded(target).write_text(digests[0] + "\n", encoding="utf-8")
    return target


def verify(
    source: Source, path: Path, *, verify_digest: bool = True, dense: bool | None = None
) -> tuple[Any, Vector, str]:
    """Check a file against the facts about the set; return X, labels and the sha256 of the text.

    A wrong digest, number of examples, features or classes raises a DataCorruptError.
    """
    text = read_text(path)
    digest = hashlib.sha256(text).hexdigest()
    if verify_digest:
        recorded, expected = _recorded(path), source.sha256
        if recorded.is_file():
            expected = recorded.read_text(encoding="utf-8").strip()
        elif source.md5 and _md5(path) == source.md5:
            # the site's archive may hold other bytes than the text with the known digest
            expected = ""
        if expected and digest != expected:
            raise DataCorruptError(
                f"{path} has sha256 {digest[:12]}..., expected {expected[:12]}...; delete it and "
                "fetch it again, or take it as it is with verify_digest=False if you know what it "
                "is."
            )
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


def _recorded(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def array_digest(*arrays: Vector) -> str:
    """Return the sha256 of the bytes of arrays, for data without a text."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
