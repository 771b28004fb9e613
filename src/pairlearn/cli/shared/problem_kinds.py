# SPDX-License-Identifier: BSD-3-Clause
"""The problems that the program trains for: estimator, losses, and what is said of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from pairlearn.cli.shared.names import names_in

__all__ = ["PROBLEMS", "ProblemKind", "kind_of"]


@dataclass(frozen=True)
class ProblemKind:
    """One kind of problem by its name on the command line.

    Its losses are `special` and those in the register `known`; the first one is the default.
    The estimator is imported when it is needed. `scorer` is its method that says something of each
    row, and `result` what that is called; `loss_parameter` takes the loss. `solver` is the class
    that holds step size and radius.
    """

    name: str
    estimator: str
    known: str
    scorer: str
    result: str
    special: tuple[str, ...] = ()
    loss_parameter: str = "loss"
    solver: str = "SGD"

    @property
    def losses(self) -> tuple[str, ...]:
        """The names of the losses that the estimator takes."""
        return (*self.special, *(names_in(self.known) if self.known else ()))

    def check(self, loss: str | None) -> ProblemKind:
        """Return the kind itself if it has the loss."""
        if loss is not None and loss not in self.losses:
            raise click.BadParameter(
                f"--loss {loss} is not for --problem {self.name}; take one of "
                f"{', '.join(self.losses)}."
            )
        return self

    def make(
        self,
        loss: str | None,
        step_size: float | str,
        radius: float | str,
        seed: int,
        features: str = "linear",
    ) -> Any:
        """Return an estimator that is not fitted."""
        import importlib

        from pairlearn.cli.light_imports import import_scikit_learn

        self.check(loss)
        import_scikit_learn()
        door = importlib.import_module("pairlearn.estimators")
        settings: dict[str, Any] = {}
        if self.estimator != "AUCClassifier" or not step_size == radius == "auto":
            settings["solver"] = getattr(door, self.solver)(step_size=step_size, radius=radius)
        return getattr(door, self.estimator)(
            **{self.loss_parameter: loss or self.losses[0]},
            **settings,
            random_state=seed,
            **({} if features == "linear" else {"features": features}),
        )

    def check_features(self, features: str, *, is_stream: bool) -> None:
        """Refuse features that the estimator does not take."""
        if features == "linear" or self.name == "auc":
            return
        if features == "auto":
            raise click.BadParameter(
                f"--feature-map auto is not for --problem {self.name}; take one of "
                f"{', '.join(names_in('features.MAPS'))}."
            )
        if self.name == "classes":
            return
        if is_stream:
            raise click.BadParameter(
                f"--feature-map {features} of a stream is for --problem auc; pass --fit offline."
            )


PROBLEMS = {
    kind.name: kind
    for kind in (
        ProblemKind("auc", "AUCClassifier", "losses.LOSSES", "decision_function", "score",
                    ("auto",)),
        ProblemKind("classes", "AUCClassifier", "", "decision_function", "score",
                    ("auto", "square", "squared_hinge")),
        ProblemKind("ranking", "PairwiseRanker", "losses.LOSSES", "predict", "score"),
        ProblemKind("entropy", "EntropyRegressor", "losses.WINDOWS", "predict", "prediction",
                    loss_parameter="window"),
        ProblemKind("metric", "MetricLearner", "losses.METRIC_LOSSES", "transform", "z",
                    solver="MetricSGD"),
    )
}  # fmt: skip


def kind_of(model: Any) -> ProblemKind:
    """Return the problem that a fitted model solves; AUC for all classifiers."""
    name = type(model).__name__
    return next((kind for kind in PROBLEMS.values() if kind.estimator == name), PROBLEMS["auc"])
