# SPDX-License-Identifier: BSD-3-Clause
"""The online learner as a River classifier; needs River (extra ``river``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pairlearn.losses import PairLoss
from pairlearn.streams.named import NamedLearner
from river import base

__all__ = ["RiverAUCClassifier"]


class RiverAUCClassifier(NamedLearner, base.Classifier):  # type: ignore[misc]
    """Online AUC maximisation with River's interface.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        The pair loss.
    step_size : float or "auto", default="auto"
        Scale c of the step sizes c / sqrt(t).
    radius : float, default=inf
        Radius of the ball that the coefficients live in.
    scaling : "auto" or None, default="auto"
        Whether the scales of features are found on the way; see `NamedLearner`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = RiverAUCClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 93...%
    """

    def __init__(
        self,
        loss: str | PairLoss = "hinge",
        step_size: float | str = "auto",
        radius: float = math.inf,
        scaling: str | None = "auto",
    ) -> None:
        super().__init__(loss, step_size=step_size, radius=radius, scaling=scaling)

    @property
    def _multiclass(self) -> bool:
        return False

    def predict_one(self, x: Mapping[Any, float], **kwargs: Any) -> bool:
        """Return whether True is the more probable label."""
        return NamedLearner.predict_one(self, x)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {}
        yield {"loss": "logistic", "step_size": 0.1}
        yield {"loss": "square", "step_size": 0.01, "radius": 5.0, "scaling": None}
