# SPDX-License-Identifier: BSD-3-Clause
"""A sample of each class and a fingerprint of the data, the same for any partitioning.

It is the sample of `pairlearn.solvers.streams.sample`, for any labels. So it does not depend on
which partition, or which batch of a partition, holds an example. Samples merge: an example of the
sample of all partitions is in the sample of each partition that has it, so that its copies are all
counted.

The sample of a partition is as large as that of all. Where there are two passes, the first one
brings keys only (`SampleKeys`), and in the second a partition sends what is in the sample of all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.content import Hashes, keys_of, mixed, row_hashes
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.chunk import Chunk, ScaledTable, as_chunk, same_width
from pairlearn.distributed.statistics.moments import comparable
from pairlearn.folds import Keys
from pairlearn.solvers.streams.sample import SIZE, candidates, cap_of, different, with_copies
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: Half of the bits of a key.
_HALF = np.uint64(32)


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


class SampleKeys(Statistic):
    """The largest key of each class in a sample, or a little more: no other row need travel.

    Parameters
    ----------
    size, seed : see `RowSample`
        As of `RowSample`.

    Examples
    --------
    >>> X, y = np.arange(10.0)[:, None], np.arange(10) % 2
    >>> states = [SampleKeys(2).partial_state(X[k::3], y[k::3]) for k in range(3)]
    >>> limits = SampleKeys(2).finish(SampleKeys(2).merge_all(states))
    >>> whole, few = RowSample(2), RowSample(2, limits=limits)
    >>> bool((whole.finish(whole.partial_state(X, y)).X == few.finish(
    ...     few.merge_all(few.partial_state(X[k::3], y[k::3]) for k in range(3))).X).all())
    True
    """

    def __init__(self, size: int = SIZE, seed: int = 0) -> None:
        self.size, self.seed = check_count("size", size), seed

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the smallest keys of each class of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        if chunk.labels is None:
            raise ValueError("A sample of each class needs labels; pass y.")
        keys, cap = keys_of(_hashes(chunk), self.seed), cap_of(self.size, chunk.shape[1])
        classes, code = chunk.coded
        # Half of the bits are enough: of two equal halves the next larger one is the limit.
        halves = (keys >> _HALF).astype(np.uint32)
        found = [
            np.unique(halves[candidates(np.flatnonzero(code == k), keys, cap)])[:cap]
            for k in range(len(classes))
        ]
        return {**self._state(classes, found), "width": np.array(chunk.shape[1])}

    @staticmethod
    def _state(classes: NDArray[Any], found: list[NDArray[np.uint32]]) -> State:
        sizes = np.array([len(own) for own in found])
        return {"classes": classes, "sizes": sizes, "keys": np.concatenate(found)}

    def combine(self, a: State, b: State) -> State:
        """Keep the smallest keys of both."""
        same_width(int(a["width"]), int(b["width"]))
        comparable(a["classes"], b["classes"])
        classes = np.unique(np.concatenate([a["classes"], b["classes"]]))
        cap = cap_of(self.size, int(a["width"]))
        own = [self._by_label(state) for state in (a, b)]
        none = np.empty(0, dtype=np.uint32)
        found = [
            np.unique(np.concatenate([one.get(label, none) for one in own]))[:cap]
            for label in classes.tolist()
        ]
        return {**self._state(classes, found), "width": a["width"]}

    def finish(self, state: State) -> dict[Any, int]:
        """Return the largest key of each label that is in the sample; none for a short class."""
        state = self.needs(state)
        cap = cap_of(self.size, int(state["width"]))
        return {
            label: ((int(keys[-1]) + 1) << int(_HALF)) - 1
            for label, keys in self._by_label(state).items()
            if len(keys) == cap
        }

    @staticmethod
    def _by_label(state: State) -> dict[Any, NDArray[np.uint32]]:
        ends = np.cumsum(state["sizes"])
        own = np.split(state["keys"], ends[:-1])
        return dict(zip(state["classes"].tolist(), own, strict=True))


class RowSample(Statistic):
    """A uniform sample of at most `size` different examples of each class.

    Parameters
    ----------
    size : int, default=2500
        The number of examples of each class; it is smaller for more than 1,600 features.
    seed : int, default=0
        The seed of the keys.
    limits : mapping of label to int, optional
        The largest key of each class, if it is known; larger ones are left out.

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

    def __init__(
        self, size: int = SIZE, seed: int = 0, limits: Mapping[Any, int] | None = None
    ) -> None:
        self.size, self.seed, self.limits = check_count("size", size), seed, dict(limits or {})

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the sample of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        if chunk.labels is None:
            raise ValueError("A sample of each class needs labels; pass y.")
        hashes = _hashes(chunk)
        classes, code = chunk.coded
        marks = np.array([mark_of(label) for label in classes.tolist()], dtype=np.uint64)
        cap, found = self._cap(chunk.shape[1]), []
        keys = keys_of(hashes, self.seed)
        for k, label in enumerate(classes.tolist()):
            index = np.flatnonzero(code == k)
            if label in self.limits:
                index = index[keys[index] <= np.uint64(self.limits[label])]
            index = candidates(index, keys, cap)
            found.append(different(index, keys, cap, chunk.weight, np.ones(len(keys), np.int64)))
        kept, weight, copies = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return {
            "hashes": hashes[kept],
            "rows": chunk.dense(kept),
            "labels": chunk.labels[kept],
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


def _hashes(chunk: Chunk) -> Hashes:
    table = chunk.table
    return row_hashes(np.asarray(table) if isinstance(table, ScaledTable) else table)


def mark_of(label: Any) -> int:
    """Return 64 bits of a label; 1, 1.0 and True are the same."""
    text = f"{float(label)!r}" if isinstance(label, (bool, int, float)) else f"text {label}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
