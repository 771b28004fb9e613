# SPDX-License-Identifier: BSD-3-Clause
"""The methods that an online learner needs from an estimator, the library's or your own.

========================================  =====================================================
``partial_fit(X, y)``                     learns a chunk; also gets ``qid=`` if it accepts it
``score_and_learn(X, y, *, classes,``     replaces `partial_fit` for two classes: learns a chunk
``finite)``                               and returns its scores from before learning
``stream_state()``                        returns the complete state as values that
                                          `pairlearn.streams.state` can store
``restore_stream(state)``                 loads a state into an estimator with equal settings
``restart_stream()``                      optional, for `OnlineLearner(forget=...)`: starts anew
                                          from the present coefficients
``get_params(deep=False)``                the settings that a checkpoint belongs to, as in
                                          scikit-learn's `BaseEstimator`
========================================  =====================================================

`classes` holds both labels, or is None once the estimator has `classes_`; `finite` promises that X
holds neither NaN nor infinity. If a chunk fails, the estimator must stay unchanged.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from numpy.typing import NDArray

from pairlearn.typing import Vector


class Driver:
    """Drive an estimator through the methods that this module lists."""

    def __init__(self, model: Any) -> None:
        #: Whether the estimator returns scores of two classes, which have an AUC.
        self.ranks_classes = hasattr(model, "score_and_learn")
        #: Whether the estimator can start a stream from its present coefficients.
        self.can_restart = hasattr(model, "restart_stream")
        learn = "score_and_learn" if self.ranks_classes else "partial_fit"
        missing = [
            name
            for name in (learn, "stream_state", "restore_stream")
            if not callable(getattr(model, name, None))
        ]
        if missing:
            raise TypeError(
                f"an online learner cannot drive {type(model).__name__}, which has no "
                f"{' and no '.join(missing)}; take AUCClassifier or PairwiseRanker, or write them "
                "(see pairlearn.streams.driving)."
            )
        self.model = model
        #: Whether the estimator ranks within queries.
        self.takes_queries = (
            not self.ranks_classes and "qid" in signature(model.partial_fit).parameters
        )

    def learn(
        self,
        X: Any,
        y: NDArray[Any],
        qid: NDArray[Any] | None = None,
        *,
        classes: NDArray[Any] | None = None,
        finite: bool = False,
    ) -> Vector | None:
        """Learn a chunk; return its scores from before, or None if nothing measures them."""
        if self.ranks_classes:
            known = hasattr(self.model, "classes_")
            scores: Vector = self.model.score_and_learn(
                X, y, classes=None if known else classes, finite=finite
            )
            return scores
        if self.takes_queries:
            self.model.partial_fit(X, y, qid=qid)
        else:
            self.model.partial_fit(X, y)
        return None
