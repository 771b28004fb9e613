# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted ranker says of new examples, and how a model file holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.mapping import MapsFeatures
from pairlearn.estimators.shared.storage import Storable
from pairlearn.losses import PairLoss
from pairlearn.metrics.ranking import ndcg, pair_accuracy
from pairlearn.models.registry import ArraySpec
from pairlearn.typing import Vector


class QueryScores:
    """How well the scores of a ranker's `predict` put examples in order."""

    k: int | None
    gain: str

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Return the mean NDCG@k over queries, at most 1; without queries, the pair accuracy.

        `y` holds grades of at least 0, or any real target without queries; `qid` is the query of
        each example.
        """
        scores = self.predict(X)  # type: ignore[attr-defined]
        if qid is None:
            return pair_accuracy(y, scores)
        return ndcg(y, scores, qid=qid, k=self.k, gain=self.gain)

    def pair_accuracy(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """Return the mean over queries of the share of pairs in the right order.

        `y` holds grades, or any real target; `qid` is the query of each example.
        """
        scores = self.predict(X)  # type: ignore[attr-defined]
        return pair_accuracy(y, scores, qid=qid)


class RankerPredictions(QueryScores, MapsFeatures, Storable):
    """Predictions and storage of `PairwiseRanker`."""

    coef_: Vector

    _not_stored = ("random_state",)
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"solver_": str, "loss_": PairLoss, "choice_": Choice}
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "step_size": ArraySpec((), required=False, low=0.0),
        "held_out_accuracy": ArraySpec((), required=False, low=0.0, high=1.0),
        "n_queries": ArraySpec((), ("int64",), required=False, low=0),
        **{
            name: ArraySpec((), ("int64",), low=0)
            for name in ("n_steps", "n_gradients", "n_forgotten", "n_single", "n_flat")
        },
    }

    def predict(self, X: Any) -> Vector:
        """Return a score for each row of `X`; within a query, rank by them, largest first."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._linear_scores(X, self.coef_, getattr(self, "features_", None))
