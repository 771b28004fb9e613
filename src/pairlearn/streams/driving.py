# SPDX-License-Identifier: BSD-3-Clause
"""What an online learner asks of an estimator, of the library or of one's own.

========================================  =====================================================
``partial_fit(X, y)``                     learns a chunk; gets ``qid=`` too where it takes it
``score_and_learn(X, y, *, classes,``     instead, for two classes: learns a chunk and returns
``finite)``                               the scores that it had before, whose AUC is watched
``stream_state()``                        everything that the next chunk depends on, as values
                                          that `pairlearn.streams.state` can hold
``restore_stream(state)``                 goes on from there, in an estimator made alike
``restart_stream()``                      optional: begins anew from the present coefficients,
                                          which `OnlineLearner(forget=...)` needs
``get_params(deep=False)``                the settings that a checkpoint belongs to, as
                                          scikit-learn's `BaseEstimator` gives them
========================================  =====================================================

`classes` holds both labels, or is None once the estimator has `classes_`; `finite` says that X is
known to hold neither NaN nor infinity. A chunk that fails must leave the estimator as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

from numpy.typing import NDArray

from pairlearn.typing import Vector

__all__ = ["Driver"]


class Driver:
    """Drives an estimator; see the methods that this module asks for.

    >>> class Mean:
    ...     total, n = 0.0, 0
    ...     def partial_fit(self, X, y):
    ...         self.total, self.n = self.total + float(y.sum()), self.n + len(y)
    ...     def stream_state(self):
    ...         return {"total": self.total, "n": self.n}
    ...     def restore_stream(self, state):
    ...         self.total, self.n = state["total"], state["n"]
    >>> import numpy as np
    >>> driver, other = Driver(Mean()), Driver(Mean())
    >>> driver.learn(np.zeros((2, 1)), np.array([1.0, 2.0]))
    >>> other.restore(driver.state())
    >>> other.model.total
    3.0
    """

    def __init__(self, model: Any) -> None:
        #: Whether there are scores, whose AUC means something.
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
                f"{' and no '.join(missing)}; take AUCClassifier, PairwiseRanker, MetricLearner or "
                "EntropyRegressor, or write them (pairlearn.streams.driving says what they do)."
            )
        self.model = model
        self._takes_queries = "qid" in signature(getattr(model, learn)).parameters

    def learn(
        self,
        X: Any,
        y: NDArray[Any],
        qid: NDArray[Any] | None = None,
        *,
        classes: NDArray[Any] | None = None,
        finite: bool = False,
    ) -> Vector | None:
        """Learn a chunk; return the scores that it had before, where their AUC means something."""
        if self.ranks_classes:
            known = hasattr(self.model, "classes_")
            scores: Vector = self.model.score_and_learn(
                X, y, classes=None if known else classes, finite=finite
            )
            return scores
        if self._takes_queries:
            self.model.partial_fit(X, y, qid=qid)
        else:
            self.model.partial_fit(X, y)
        return None

    def restart(self) -> None:
        """Forget the step counter and the average; go on from the present coefficients."""
        self.model.restart_stream()

    def state(self) -> dict[str, Any]:
        """Return the state of the estimator."""
        state: dict[str, Any] = self.model.stream_state()
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put the estimator into a state returned by `state`."""
        self.model.restore_stream(state)
