# SPDX-License-Identifier: BSD-3-Clause
"""The problems that the program trains for: estimator, losses, and what is said of a row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import click

__all__ = ["PROBLEMS", "ProblemKind", "kind_of"]

_MARGINS = ("hinge", "squared_hinge", "square", "logistic", "exponential", "loglink",
            "smoothed_hinge")  # fmt: skip


@dataclass(frozen=True)
class ProblemKind:
    """One kind of problem.

    Parameters
    ----------
    name : str
        Its name on the command line.
    module, estimator : str
        Where its estimator is, imported when it is needed.
    losses : tuple of str
        Names of losses, the default first.
    scorer : str
        Method of the estimator that says something of each row.
    result : str
        What that is called.
    loss_parameter : str
        Parameter of the estimator that takes the loss.
    free_radius : str or float
        The radius that "auto" stands for.
    """

    name: str
    module: str
    estimator: str
    losses: tuple[str, ...]
    scorer: str
    result: str
    loss_parameter: str = "loss"
    free_radius: str | float = math.inf

    def make(self, loss: str | None, step_size: float | str, radius: float | str, seed: int) -> Any:
        """Return an estimator that is not fitted."""
        import importlib

        if loss is not None and loss not in self.losses:
            raise click.BadParameter(
                f"--loss {loss} is not for --problem {self.name}; take one of "
                f"{', '.join(self.losses)}."
            )
        make = getattr(importlib.import_module(f"pairlearn.estimators.{self.module}"),
                       self.estimator)  # fmt: skip
        return make(
            **{self.loss_parameter: loss or self.losses[0]},
            step_size=step_size,
            radius=self.free_radius if radius == "auto" else radius,
            random_state=seed,
        )


PROBLEMS = {
    kind.name: kind
    for kind in (
        ProblemKind("auc", "auc", "AUCClassifier", _MARGINS, "decision_function", "score",
                    free_radius="auto"),
        ProblemKind("ranking", "ranker", "PairwiseRanker", _MARGINS, "predict", "score"),
        ProblemKind("entropy", "entropy", "EntropyRegressor", ("gaussian", "epanechnikov"),
                    "predict", "prediction", loss_parameter="window"),
        ProblemKind("metric", "metric", "MetricLearner", ("hinge", "hinge_no_bias", "logistic"),
                    "transform", "z"),
    )
}  # fmt: skip


def kind_of(model: Any) -> ProblemKind:
    """Return the problem that a fitted model solves; AUC for all classifiers.

    Examples
    --------
    >>> from pairlearn import PairwiseRanker
    >>> kind_of(PairwiseRanker()).name
    'ranking'
    """
    name = type(model).__name__
    return next((kind for kind in PROBLEMS.values() if kind.estimator == name), PROBLEMS["auc"])
