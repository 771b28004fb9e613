# SPDX-License-Identifier: BSD-3-Clause
"""A sample of each class and a fingerprint of the data, the same for any partitioning.

It is the sample of `pairlearn.solvers.streams.sample`, for any labels. So it does not depend on
which partition, or which batch of a partition, holds an example. Samples merge: an example of the
sample of all partitions is in the sample of each partition that has it, so that its copies are all
counted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.cluster.rows import as_chunk, comparable, labels_of, mark_of, same_width
from pairlearn.cluster.statistic import State, Statistic
from pairlearn.content import keys_of, mixed, row_hashes
from pairlearn.folds import Keys
from pairlearn.solvers.streams.sample import SIZE, candidates, cap_of, different, with_copies
from pairlearn.typing import Vector
from pairlearn.validation import check_count


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Sampled examples of all classes, with their weights, and a fingerprint of all examples."""

    X: Vector
    labels: NDArray[Any]
    #: The weight of all copies of an example; empty if all are one.
    weight: Vector
    #: Deal folds of the sample.
    keys: Keys
    #: 32 hexadecimal digits of what all examples hold, in any order.
    fingerprint: str


class RowSample(Statistic):
    """A uniform sample of at most `size` different examples of each class.

    Parameters
    ----------
    size : int, default=2500
        The number of examples of each class; it is smaller for more than 1,600 features.
    seed : int, default=0
        The seed of the keys.

    Examples
    --------
    >>> X, y = np.arange(10.0)[:, None], np.arange(10) % 2
    >>> statistic = RowSample(2)
    >>> found = statistic.finish(statistic.partial_state(X, y))
    >>> states = [statistic.partial_state(X[k::3], y[k::3]) for k in range(3)]
    >>> same = statistic.finish(statistic.merge_all(states))
    >>> same.labels, bool((same.X == found.X).all()), same.fingerprint == found.fingerprint
    (array([0, 0, 1, 1]), True, True)
    """

    def __init__(self, size: int = SIZE, seed: int = 0) -> None:
        self.size, self.seed = check_count("size", size), seed

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the sample of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        labels = labels_of(chunk, "A sample of each class")
        hashes = row_hashes(chunk.table)
        classes, code = chunk.coded
        marks = np.array([mark_of(label) for label in classes.tolist()], dtype=np.uint64)
        cap, found = self._cap(chunk.shape[1]), []
        keys = keys_of(hashes, self.seed)
        for k in range(len(classes)):
            index = candidates(np.flatnonzero(code == k), keys, cap)
            found.append(different(index, keys, cap, chunk.weight, np.ones(len(keys), np.int64)))
        kept, weight, copies = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return {
            "hashes": hashes[kept],
            "rows": chunk.dense(kept),
            "labels": labels[kept],
            "weight": weight,
            "copies": copies,
            "total": np.array([mixed(hashes + marks[code]).sum(dtype=np.uint64)]),
            "n_examples": np.array(len(hashes)),
        }

    def combine(self, a: State, b: State) -> State:
        """Keep the smallest keys of both; add the copies of an example."""
        same_width(a["rows"].shape[1], b["rows"].shape[1])
        comparable(a["labels"], b["labels"])
        sums = {name: a[name] + b[name] for name in ("total", "n_examples")}
        both = {name: np.concatenate([a[name], b[name]]) for name in a if name not in sums}
        keys, cap = keys_of(both["hashes"], self.seed), self._cap(a["rows"].shape[1])
        found = []
        for label in np.unique(both["labels"]):
            index = np.flatnonzero(both["labels"] == label)
            found.append(different(index, keys, cap, both["weight"], both["copies"]))
        kept, weight, copies = (np.concatenate(parts) for parts in zip(*found, strict=True))
        merged = {name: values[kept] for name, values in both.items()}
        return {**merged, "weight": weight, "copies": copies, **sums}

    def finish(self, state: State) -> SampledRows:
        """Return the sample, class by class."""
        state = self.needs(state)
        labels, cap = state["labels"], self._cap(state["rows"].shape[1])
        kept, weight = with_copies(labels, state["weight"], state["copies"], cap)
        told = f"{int(state['n_examples'])} {int(state['total'][0])} {state['rows'].shape[1]}"
        return SampledRows(
            state["rows"][kept],
            labels[kept],
            weight,
            Keys(len(kept), self.seed),
            hashlib.sha256(told.encode()).hexdigest()[:32],
        )

    def _cap(self, d: int) -> int:
        return cap_of(self.size, d)
