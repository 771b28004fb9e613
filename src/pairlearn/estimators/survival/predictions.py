# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted survival ranker says of new examples, and how a model file holds it."""

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
from pairlearn.estimators.survival.hazard import Hazard
from pairlearn.losses import PairLoss
from pairlearn.metrics.concordance import ConcordanceIndex
from pairlearn.models.registry import ArraySpec
from pairlearn.typing import Vector


class SurvivalPredictions(MapsFeatures, Storable):
    """Predictions and storage of `SurvivalRanker`."""

    ipcw: bool
    tau: float | None
    coef_: Vector
    choice_: Choice | None
    # of a stream these are None
    hazard_slope_: Any
    hazard_centre_: Any
    event_times_: Any
    cumulative_hazard_: Any
    last_time_: Any

    _not_stored = ("random_state",)
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"solver_": str, "loss_": PairLoss, "choice_": Choice}
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "ridge": ArraySpec((), required=False, low=0.0),
        "step_size": ArraySpec((), required=False, low=0.0),
        "held_out_concordance": ArraySpec((), required=False, low=0.0, high=1.0),
        **{
            name: ArraySpec((), ("int64",), low=0)
            for name in ("n_events", "n_steps", "n_gradients")
        },
        **{
            name: ArraySpec((), required=False)
            for name in ("hazard_slope", "hazard_centre", "last_time")
        },
        "event_times": ArraySpec(("n_times",), required=False),
        "cumulative_hazard": ArraySpec(("n_times",), required=False, low=0.0),
    }

    def predict(self, X: Any) -> Vector:
        """Return the risk score of each row of `X`: the higher, the earlier the event."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._linear_scores(X, self.coef_, getattr(self, "features_", None))

    def predict_survival_function(self, X: Any, times: ArrayLike | None = None) -> Vector:
        """Return the chance to survive given times, by proportional hazards of the score.

        The ranker learns an order only. The chances come from Breslow's estimate for the training
        scores, see `pairlearn.estimators.survival.hazard`; they assume proportional hazards.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        times : array-like of shape (n_times,), optional
            Times up to the largest one in training; `event_times_` by default.

        Returns
        -------
        ndarray of shape (n_samples, n_times)
            The chance of each example to have no event until each time.
        """
        scores = self.predict(X)
        if self.event_times_ is None:
            raise ValueError(
                "a stream keeps no times, so that it has no chances of survival; use fit."
            )
        hazard = Hazard(
            self.hazard_slope_, self.hazard_centre_, self.event_times_, self.cumulative_hazard_
        )
        if times is None:
            return hazard.survival(scores, self.event_times_)
        asked = np.asarray(times, dtype=np.float64)
        if asked.ndim != 1 or not (asked <= self.last_time_).all():
            raise ValueError(
                "times must be a vector of times up to the largest one in training, "
                f"{self.last_time_:g}, got {times!r}; nothing is known of what comes after."
            )
        return hazard.survival(scores, asked)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the concordance index of the predicted risks, with the ranker's `ipcw` and `tau`.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : structured array, data frame or array-like of shape (n_samples, 2)
            Events and times, as in `fit`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        float
            1 for a perfect order, 1/2 for chance.
        """
        metric = ConcordanceIndex(ipcw=self.ipcw, tau=self.tau)
        return metric(y, self.predict(X), sample_weight=sample_weight)
