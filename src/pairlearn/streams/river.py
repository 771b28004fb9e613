# SPDX-License-Identifier: BSD-3-Clause
"""The online learner as a River classifier; needs River (extra ``river``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from river import base

from pairlearn.losses import PairLoss
from pairlearn.streams.named import NamedLearner

__all__ = ["RiverAUCClassifier"]


class RiverAUCClassifier(NamedLearner, base.Classifier):  # type: ignore[misc]
    """Online AUC maximisation with River's interface.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        The pair loss.
    step_size : float or "auto", default="auto"
        Scale c of the step sizes c / sqrt(t); "auto" finds it from the first 32 examples.
    radius : float, default=inf
        Radius of the ball that the coefficients live in.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> model = preprocessing.StandardScaler() | RiverAUCClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 94...%
    """

    def __init__(
        self,
        loss: str | PairLoss = "hinge",
        step_size: float | str = "auto",
        radius: float = math.inf,
    ) -> None:
        super().__init__(loss, step_size=step_size, radius=radius)

    @property
    def _multiclass(self) -> bool:
        return False

    def predict_one(self, x: Mapping[Any, float], **kwargs: Any) -> bool:  # type: ignore[override]
        """Return whether True is the more probable label."""
        return NamedLearner.predict_one(self, x)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {}
        yield {"loss": "logistic", "step_size": 0.1}
        yield {"loss": "square", "step_size": 0.01, "radius": 5.0}
