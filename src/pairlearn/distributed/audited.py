# SPDX-License-Identifier: BSD-3-Clause
"""Training over partitions as an entry for audits (`privacy.audit.entry`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pairlearn.distributed.private_auc import train_private_auc
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table

#: Number of partitions; `privacy.audit.neighbours.places` puts changes at their boundaries.
_PARTS = 4


class ClusterEntry(FitEntry):
    """`train_private_auc` over four partitions, simulated in this process.

    Parameters
    ----------
    estimator : PrivateAUCClassifier
        The estimator.
    trust : {"aggregator", "none"}
        Who may see sums without noise.
    **size : int
        Those of `FitEntry`.
    """

    def __init__(self, estimator: PrivateAUCClassifier, *, trust: str, **size: Any) -> None:
        super().__init__(estimator, name=f"train_private_auc with trust={trust!r}", **size)
        self.trust = trust
        self._key = os.urandom(32)
        # Without trust a fit draws noise twenty times.
        self.share_of_runs = 1.0 if trust == "aggregator" else 0.3

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables; without trust every other example keeps its partition."""
        pairs = super().pairs()
        return [pair for pair in pairs if self.trust == "aggregator" or pair.rows is None]

    def listed(self, result: Any) -> Sequence[Release]:
        """Return the release of each noisy sum; without trust each partition makes one."""
        times = 1 if self.trust == "aggregator" else _PARTS
        return [release for release in result.certificate_.releases for _ in range(times)]

    def _fitted(self, model: Any, table: Table) -> Any:
        cuts = [self.n * k // _PARTS for k in range(_PARTS)] + [len(table.X)]
        # A partition is an array; one of objects holds whatever a list holds.
        X = np.asarray(table.X, dtype=object) if isinstance(table.X, list) else table.X
        parts = [(X[a:b], table.y[a:b]) for a, b in pairwise(cuts)]

        def run(statistic: Statistic) -> State:
            found = [statistic.of_part(k).partial_state(*part) for k, part in enumerate(parts)]
            return statistic.merge_all(found)

        if self.trust == "aggregator":
            return train_private_auc(run, model, trust=self.trust)
        with TemporaryDirectory() as folder:
            key_file = Path(folder) / "key"
            key_file.write_bytes(self._key)  # One key serves all fits.
            train_private_auc(run, model, trust=self.trust, reach=1, key_file=key_file)
        # The number of a fit is drawn anew, whatever the data.
        facts = {k: v for k, v in model.certificate_.public.items() if k != "fit"}
        model.certificate_ = replace(model.certificate_, public=facts)
        return model
