# SPDX-License-Identifier: BSD-3-Clause
"""What the ranker of grades asks of a descent: pairs, folds and measure within queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pairlearn.estimators.ranking.choice import Queries, folds_of, pair_scale
from pairlearn.estimators.shared.descent import RankerDescent
from pairlearn.estimators.shared.solvers import SGD, way_of
from pairlearn.folds import Keys
from pairlearn.losses import PairLoss
from pairlearn.metrics.ranking import pair_accuracy
from pairlearn.pairings import Pairing
from pairlearn.problem import Problem
from pairlearn.scores import LinearScore
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Places, Vector

#: The most held-out examples that judge a choice without queries.
_JUDGED = 20_000


@dataclass(frozen=True)
class RankingTask:
    """Everything about the fit of a ranker but the examples.

    `validation_fraction` is the share of the queries of a held-out part.
    """

    loss: PairLoss
    is_scaled: bool
    rng: np.random.Generator
    queries: Queries
    validation_fraction: float = 0.2
    #: Deal folds by what the examples hold; None for a stream, which deals none.
    keys: Keys | None = None

    owner: ClassVar[str] = "PairwiseRanker"

    def way(self, solver: Any) -> Any:
        """Return how a ranker trains by a solver."""
        return way_of(solver, {SGD: RankerDescent}, self.owner)(self, solver)

    @property
    def problem(self) -> Problem:
        """The loss of a margin; labels are compared by their order."""
        return Problem(LinearScore(), self.loss)

    def pairing(self, given: str | Pairing, part: Places | None = None) -> Pairing:
        """Return the pairing that a solver names: within queries, if there are any."""
        return (self.queries if part is None else self.queries.take(part)).pairing(given)

    def pair_scale(self, rows: Rows, given: str | Pairing, weight: Vector) -> float:
        """Return the mean squared distance of the examples of a pair; `weight` may be empty."""
        assert self.keys is not None
        order = self.keys.permutation(np.arange(rows.shape[0]))
        return pair_scale(rows, self.pairing(given, order), order, self.rng, weight)

    def folds(self, y: Vector) -> list[tuple[Places, Places]]:
        """Return training and held-out queries."""
        query, queries = self.queries.of_example, self.queries
        assert query is not None
        assert self.keys is not None
        return folds_of(query, y, queries.grouped, self.validation_fraction, self.keys)

    def judged(self, test: Places) -> Places:
        """Return all held-out queries; without queries a part is enough."""
        return test if self.queries.grouped else test[:_JUDGED]

    def judge(self, y: Vector, scores: Vector, test: Places, weight: Vector) -> float:
        """Return the pair accuracy within queries, in which all pairs count the same."""
        query = self.queries.of_example
        assert query is not None
        return pair_accuracy(y, scores, qid=query[test])
