# SPDX-License-Identifier: BSD-3-Clause
"""Checked examples of one partition, which are looked at block by block."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.closed_form.mapped_moments import block_of
from pairlearn.solvers.rows import DenseRows, Rows, as_rows
from pairlearn.typing import Vector
from pairlearn.validation import check_names, check_weights, is_missing, refuse_masked

#: Numbers of a block, which stay in the cache of a processor.
_NUMBERS = 65_536


@dataclass(frozen=True, eq=False)
class Chunk:
    """Checked examples of positive weight."""

    rows: Rows
    #: As they came, or None.
    labels: NDArray[Any] | None
    #: None if all weights are 1.
    given_weight: Vector | None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return (self.rows.shape[0], self.rows.shape[1])

    @cached_property
    def weight(self) -> Vector:
        """The weight of each example."""
        return np.ones(self.shape[0]) if self.given_weight is None else self.given_weight

    @cached_property
    def coded(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The labels that occur, sorted, and the place of each example's label among them."""
        assert self.labels is not None
        classes, code = np.unique(self.labels, return_inverse=True)
        return classes, code.astype(np.intp)

    @property
    def table(self) -> Any:
        """The rows as an array, or as a CSR matrix."""
        return self.rows.X if isinstance(self.rows, DenseRows) else self.rows.matrix

    def blocks(self, height: int | None = None) -> Iterator[tuple[slice, Any]]:
        """Yield consecutive rows: which they are, and an array of float64 or a CSR matrix."""
        n, d = self.shape
        height = max(_NUMBERS // d, 16) if height is None else height
        for start in range(0, n, height):
            now = slice(start, min(start + height, n))
            block = block_of(self.rows, now.start, now.stop)
            is_dense = isinstance(block, np.ndarray)
            yield now, block.astype(np.float64, copy=False) if is_dense else block

    def dense(self, index: NDArray[Any]) -> Vector:
        """Return some of the rows, dense and in float64."""
        some = self.rows.take(index)
        found = some.X if isinstance(some, DenseRows) else some.matrix.toarray()
        return np.asarray(found, dtype=np.float64)


def as_chunk(X: Any, y: Any = None, sample_weight: Any = None) -> Chunk | None:
    """Return the examples that count, None if there are none."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    refuse_masked("y", y)
    labels = None if y is None else np.asarray(y)
    if labels is not None:
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.shape != (n,):
            raise ValueError(
                f"X has {n} rows and y has shape {labels.shape} in one partition: both must be "
                "partitioned alike, one label for each row."
            )
    if not n:
        return None
    rows = as_rows(X)
    if labels is not None:
        _check_present(labels)
    if sample_weight is None:
        return Chunk(rows, labels, None)
    refuse_masked("sample_weight", sample_weight)
    weight = check_weights(np.asarray(sample_weight), n, name="sample_weight")
    counted = np.flatnonzero(weight)
    if not len(counted):
        return None
    if len(counted) < n:
        rows, weight = rows.take(counted), weight[counted]
        labels = None if labels is None else labels[counted]
    return Chunk(rows, labels, None if (weight == 1.0).all() else weight)


def labels_of(chunk: Chunk, what: str) -> NDArray[Any]:
    """Return the labels; refuse their absence."""
    if chunk.labels is None:
        raise ValueError(f"{what} needs labels; pass y.")
    return chunk.labels


def _check_present(labels: NDArray[Any]) -> None:
    if labels.dtype.kind == "O":
        if {type(label) for label in labels} == {str}:
            return
        # A missing value of pandas is not comparable to itself.
        missing = np.array([is_missing(label) for label in labels])
    else:
        missing = labels != labels
    if np.any(missing):
        raise ValueError(
            f"y lacks {int(np.count_nonzero(missing))} labels in one partition (NaN or None); "
            "remove or correct these examples."
        )
    check_names("y", labels, "label")


def same_width(a: int, b: int) -> None:
    """Refuse states of different numbers of features."""
    if a != b:
        raise ValueError(
            f"One partition has {a} features, another {b}; all partitions need the same columns."
        )


def comparable(a: NDArray[Any], b: NDArray[Any], what: str = "labels") -> None:
    """Refuse labels that are texts in one partition and numbers in another."""
    if _are_texts(a) != _are_texts(b):
        raise ValueError(
            f"{what.capitalize()} are texts in one partition and numbers in another ({a[:1]}, "
            f"{b[:1]}); give the column of {what} one type."
        )


def _are_texts(labels: NDArray[Any]) -> bool:
    kind = labels.dtype.kind
    return isinstance(labels[:1].tolist()[0], str | bytes) if kind == "O" else kind in "UST"


def mark_of(label: Any) -> int:
    """Return 64 bits of a label; 1, 1.0 and True are the same."""
    text = f"{float(label)!r}" if isinstance(label, (bool, int, float)) else f"text {label}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
