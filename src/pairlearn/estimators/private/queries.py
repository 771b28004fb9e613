# SPDX-License-Identifier: BSD-3-Clause
"""Evaluation and selection on private rows, as entries for audits (`privacy.audit.entry`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import permutations
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.audit.entry import Entry, plain
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table, neighbouring_tables
from pairlearn.privacy.audit.tape import replayed
from pairlearn.privacy.evaluation import private_roc_auc
from pairlearn.privacy.selection import select_privately
from pairlearn.typing import Vector


class EvaluationEntry(Entry):
    """`private_roc_auc` or `private_roc_curve`, of scores between -1 and 1."""

    def __init__(
        self, function: Any = private_roc_auc, *, n: int = 64, epsilon: float = 1.0,
        delta: float = 1e-3, persons: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.function, self.n, self.epsilon, self.delta = function, n, epsilon, delta
        self.persons, self.options = persons, options
        self.name = function.__name__ + (" with groups" if persons else "")

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables of one score for each row."""
        return neighbouring_tables((-1.0, 1.0), n=self.n, persons=self.persons)

    def run(self, table: Table) -> Any:
        """Evaluate."""
        groups = {"groups": table.groups} if self.persons else {}
        scores = [row[0] for row in table.X]
        return self.function(
            table.y, scores, epsilon=self.epsilon, delta=self.delta, **groups, **self.options
        )

    def public(self, result: Any) -> dict[str, Any]:
        """Return all fields."""
        return {one.name: plain(getattr(result, one.name)) for one in fields(result)}

    def numbers(self, result: Any) -> Vector:
        """Return the fields that are numbers."""
        values = [getattr(result, one.name) for one in fields(result)]
        return np.concatenate(
            [np.ravel(value) for value in values if isinstance(value, (float, np.ndarray))]
        )

    def certificate(self, result: Any) -> Certificate | None:
        """Return the certificate."""
        certificate: Certificate = result.certificate
        return certificate


class SelectionEntry(Entry):
    """`select_privately` among three models, whose law is known exactly."""

    n_models = 3

    def __init__(self, *, n: int = 64, epsilon: float = 1.0, persons: bool = False) -> None:
        self.n, self.epsilon, self.delta, self.persons = n, epsilon, 0.0, persons
        self.name = "select_privately" + (" with groups" if persons else "")

    def pairs(self) -> Sequence[PublicNeighbours]:
        """Return neighbouring tables of three scores for each row."""
        still, signs = np.zeros((self.n, self.n_models)), -np.ones(self.n)
        pairs = []
        for place in (0, self.n // 2, self.n - 1):
            X, other, y = still.copy(), still.copy(), signs.copy()
            # One example decides: it ranks the first model best, or the second.
            X[place], other[place], y[place] = (1.0, -1.0, 0.0), (-1.0, 1.0, 0.0), 1.0
            name = f"the best model changes, row {place + 1}"
            groups = None
            if self.persons:
                # The one who decides has several rows.
                times = np.where(np.arange(self.n) == place, 8, 1)
                X, other, y = (np.repeat(one, times, axis=0) for one in (X, other, y))
                groups = [f"person {k}" for k in np.repeat(np.arange(self.n), times)]
            pairs.append(PublicNeighbours(name, Table(X, y, groups), Table(other, y, groups)))
        usual = neighbouring_tables(
            (-1.0, 1.0), n=self.n, n_features=self.n_models, labels=(-1, 1), persons=self.persons
        )
        # The secret order is that of the models, not of the rows.
        return [*pairs, *(replace(pair, rows=None) for pair in usual)]

    def run(self, table: Table) -> Any:
        """Choose."""
        groups = {"groups": table.groups} if self.persons else {}
        return select_privately(table.X, table.y, epsilon=self.epsilon, **groups)

    def numbers(self, result: Any) -> Vector:
        """Return the choice."""
        return np.array([float(result)])

    def law(self, table: Table) -> Vector:
        """Return the probability of each choice, from the coins that were asked for.

        Let each model come first and show heads. It must be chosen, and its coin is then known.
        Permute and flip visits the models in a uniform order until the first heads.
        """
        heads = np.empty(self.n_models)
        for first in range(self.n_models):
            order = np.roll(np.arange(self.n_models), -first)
            with replayed(draws=[order], coins=[True]) as tape:
                chosen = self.run(table)
            if chosen != first or len(tape.coins) != 1:
                # The choice does not depend on chance.
                return np.where(np.arange(self.n_models) == chosen, 1.0, 0.0)
            numerator, denominator, _ = tape.coins[0]
            heads[first] = math.exp(-numerator / denominator)
        law = np.zeros(self.n_models)
        orders = list(permutations(range(self.n_models)))
        for visited in orders:
            reached = 1.0 / len(orders)
            for model in visited:
                law[model] += reached * heads[model]
                reached *= 1.0 - heads[model]
        return law
