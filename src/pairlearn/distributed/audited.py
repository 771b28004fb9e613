# SPDX-License-Identifier: BSD-3-Clause
"""Training over partitions as an entry for audits (`privacy.audit.entry`)."""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.base import clone

from pairlearn.distributed.private_auc import train_private_auc
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table

#: Number of partitions; `privacy.audit.neighbours.places` puts changes at their boundaries.
_PARTS = 4
#: The most partitions with rows of one person.
_REACH = 2


class ClusterEntry(FitEntry):
    """`train_private_auc` over four partitions, simulated in this process.

    Parameters
    ----------
    estimator : PrivateAUCClassifier
        The estimator.
    trust : {"aggregator", "none"}
        Who may see sums without noise.
    **options : int or bool
        Those of `FitEntry`. A person has rows in up to two partitions.
    """

    def __init__(self, estimator: PrivateAUCClassifier, *, trust: str, **options: Any) -> None:
        name = f"train_private_auc with trust={trust!r}"
        super().__init__(estimator, name=name, **options)
        if self.persons:
            self.name += " and persons"
            if trust == "none":
                self.estimator = clone(estimator).set_params(n_examples=self.n)
        self.trust = trust
        self._key = os.urandom(32)
        # Without trust a fit draws noise twenty times.
        self.share_of_runs = 1.0 if trust == "aggregator" else 0.3

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables; without trust every other example keeps its partition."""
        pairs = super().pairs()
        if self.trust == "aggregator":
            return pairs
        pairs = [pair for pair in pairs if pair.rows is None]
        return [*pairs, *map(_elsewhere, pairs)] if self.persons else pairs

    def listed(self, result: Any) -> Sequence[Release]:
        """Return the release of each noisy sum; without trust each partition makes one."""
        times = 1 if self.trust == "aggregator" else _PARTS
        return [release for release in result.certificate_.releases for _ in range(times)]

    def _fitted(self, model: Any, table: Table) -> Any:
        parts = self._parts(table)
        unit = "person" if self.persons else "example"

        def run(statistic: Statistic) -> State:
            found = [statistic.of_part(k).partial_state(**part) for k, part in enumerate(parts)]
            return statistic.merge_all(found)

        if self.trust == "aggregator":
            reach = 1 if self.persons else None
            return train_private_auc(run, model, trust=self.trust, unit=unit, reach=reach)
        with TemporaryDirectory() as folder:
            key_file = Path(folder) / "key"
            key_file.write_bytes(self._key)  # One key serves all fits.
            reach = _REACH if self.persons else 1
            train_private_auc(
                run, model, trust=self.trust, reach=reach, key_file=key_file, unit=unit
            )
        # The number of a fit is drawn anew, whatever the data.
        facts = {k: v for k, v in model.certificate_.public.items() if k != "fit"}
        model.certificate_ = replace(model.certificate_, public=facts)
        return model

    def _parts(self, table: Table) -> list[dict[str, Any]]:
        """Return the arguments of `partial_state` for each partition."""
        # A partition is an array; one of objects holds whatever a list holds.
        X = np.asarray(table.X, dtype=object) if isinstance(table.X, list) else table.X
        if not self.persons:
            cuts = [self.n * k // _PARTS for k in range(_PARTS)] + [len(X)]
            return [{"X": X[a:b], "y": table.y[a:b]} for a, b in pairwise(cuts)]
        # Where a row lies depends on its person alone: the rows alternate between two partitions.
        parts: list[list[int]] = [[] for _ in range(_PARTS)]
        seen: Counter[str] = Counter()
        for row, person in enumerate(table.groups):
            parts[(zlib.crc32(person.encode()) + seen[person] % _REACH) % _PARTS].append(row)
            seen[person] += 1
        return [
            {"X": X[rows], "y": [table.y[k] for k in rows],
             "groups": [table.groups[k] for k in rows]}
            for rows in parts
        ]  # fmt: skip


def _elsewhere(pair: PublicNeighbours) -> PublicNeighbours:
    """Return the pair with a name for the person who comes that puts the rows elsewhere."""
    (gone,) = set(pair.first.groups) - {f"person {k}" for k in range(1, len(pair.first.groups))}
    names = (f"somebody {k}" for k in range(64))
    code = zlib.crc32(gone.encode())
    name = next(one for one in names if (zlib.crc32(one.encode()) - code) % _PARTS == _REACH)
    groups = [name if person == gone else person for person in pair.second.groups]
    second = replace(pair.second, groups=groups)
    return replace(pair, name=f"{pair.name}, in other partitions", second=second)
