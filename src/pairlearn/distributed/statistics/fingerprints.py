# SPDX-License-Identifier: BSD-3-Clause
"""Fingerprints of partitions, in their order: which data a model was trained on."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.models.provenance import data_fingerprint

__all__ = ["Fingerprints"]


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
