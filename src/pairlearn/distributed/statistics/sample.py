# SPDX-License-Identifier: BSD-3-Clause
"""A sample of each class, and a fingerprint of the data, from all partitions.

A sample holds the examples with the smallest random keys, so samples merge and are uniform. The
keys are a function of a seed and of the number of the partition, so a task that runs again draws
the same sample.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.chunk import as_chunk, same_width
from pairlearn.distributed.statistics.moments import comparable
from pairlearn.models.provenance import data_fingerprint
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: The limit on the numbers of a sample, for each class.
_MOST_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Sampled examples of all classes, with their weights."""

    X: Vector
    labels: NDArray[Any]
    weight: Vector


class RowSample(Statistic):
    """A uniform sample of at most `size` examples of each class.

    Parameters
    ----------
    size : int, default=2500
        The number of examples of each class; it is smaller for more than 1,600 features.
    seed : int, default=0
        The seed of the keys.
    part : int, default=0
        The number of the partition. Two partitions must not share their keys, so engines call
        `of_part`.

    Examples
    --------
    >>> X, y = np.arange(10.0)[:, None], np.arange(10) % 2
    >>> statistic = RowSample(2)
    >>> states = [statistic.of_part(k).partial_state(X[k::2], y[k::2]) for k in range(2)]
    >>> statistic.finish(statistic.merge_all(states)).labels
    array([0, 0, 1, 1])
    """

    def __init__(self, size: int = 2_500, seed: int = 0, part: int = 0) -> None:
        self.size, self.seed, self.part = check_count("size", size), seed, part

    def of_part(self, part: int) -> RowSample:
        """Return the statistic for a partition."""
        return RowSample(self.size, self.seed, part)

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the sample of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        if chunk.labels is None:
            raise ValueError("A sample of each class needs labels; pass y.")
        n, d = chunk.shape
        keys = np.random.default_rng((self.seed, self.part)).random(n)
        kept = _smallest(chunk.labels, keys, self._cap(d))
        return {
            "keys": keys[kept],
            "rows": chunk.dense(kept),
            "labels": chunk.labels[kept],
            "weight": chunk.weight[kept],
        }

    def combine(self, a: State, b: State) -> State:
        """Keep the smallest keys of both."""
        same_width(a["rows"].shape[1], b["rows"].shape[1])
        comparable(a["labels"], b["labels"])
        both = {name: np.concatenate([a[name], b[name]]) for name in a}
        kept = _smallest(both["labels"], both["keys"], self._cap(a["rows"].shape[1]))
        return {name: values[kept] for name, values in both.items()}

    def finish(self, state: State) -> SampledRows:
        """Return the sample, class by class."""
        state = self.needs(state)
        return SampledRows(state["rows"], state["labels"], state["weight"])

    def _cap(self, d: int) -> int:
        return max(min(self.size, _MOST_NUMBERS // d), 1)


def _smallest(labels: NDArray[Any], keys: Vector, cap: int) -> NDArray[np.int64]:
    """Return the places of the smallest keys of each class, sorted by class and key."""
    kept = []
    for label in np.unique(labels):
        index = np.flatnonzero(labels == label)
        if len(index) > cap:
            # The rest need not be sorted.
            index = index[np.argpartition(keys[index], cap - 1)[:cap]]
        kept.append(index[np.argsort(keys[index], kind="stable")])
    return np.concatenate(kept)


class Fingerprints(Statistic):
    """A digest of the shape, the labels and some rows of each partition.

    Parameters
    ----------
    part : int, default=0
        The number of the partition, see `of_part`.

    Examples
    --------
    >>> statistic, X, y = Fingerprints(), np.eye(4), np.array([0, 1, 0, 1])
    >>> parts = [statistic.of_part(k).partial_state(X[k::2], y[k::2]) for k in range(2)]
    >>> whole = statistic.finish(statistic.merge(*parts))
    >>> whole == statistic.finish(statistic.merge(*parts[::-1])), len(whole)
    (True, 32)
    """

    def __init__(self, part: int = 0) -> None:
        self.part = part

    def of_part(self, part: int) -> Fingerprints:
        """Return the statistic for a partition."""
        return Fingerprints(part)

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the digest of one chunk."""
        if not X.shape[0]:
            return {}
        labels = np.asarray(y)
        # The bytes of text in an array of objects are addresses.
        known = labels if labels.dtype.kind in "biuf" else labels.astype(str)
        digest = data_fingerprint(X, known)
        return {"parts": np.array([self.part]), "digests": np.array([digest])}

    def combine(self, a: State, b: State) -> State:
        """Put the digests in the order of their partitions."""
        parts = np.concatenate([a["parts"], b["parts"]])
        order = np.argsort(parts, kind="stable")
        return {
            "parts": parts[order],
            "digests": np.concatenate([a["digests"], b["digests"]])[order],
        }

    def finish(self, state: State) -> str:
        """Return one digest of all, 32 hexadecimal digits."""
        digests = "".join(self.needs(state)["digests"].tolist())
        return hashlib.sha256(digests.encode()).hexdigest()[:32]
