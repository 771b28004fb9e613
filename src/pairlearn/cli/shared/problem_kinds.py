# SPDX-License-Identifier: BSD-3-Clause
"""The problems that the program solves: estimator, losses, and the result for a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import click

from pairlearn.cli.shared.names import names_in, register_at
from pairlearn.cli.shared.settings import Settings, set_parts

#: Parameters of estimators that are not settings, and the reason or the option to use.
OWNED = {
    "random_state": "use --seed.",
    "callbacks": "functions can be given in Python only.",
    "warm_start": "each run of the program trains a new model.",
    "client": "use --dask.",
    "progress": "functions can be given in Python only.",
}


@dataclass(frozen=True)
class ProblemKind:
    """One kind of problem by its name on the command line.

    The losses are `special` and those in the register `known`. The estimator is imported when it is
    needed. `scorer` is its method that gives a result for each row, and `result` the name of that
    result; `loss_parameter` takes the loss.
    """

    name: str
    estimator: str
    known: str
    scorer: str
    result: str
    special: tuple[str, ...] = ()
    loss_parameter: str = "loss"

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

    def make(self, settings: Settings, seed: int | None) -> Any:
        """Return an estimator with these settings, not fitted."""
        import importlib

        from pairlearn.cli.light_imports import import_scikit_learn

        import_scikit_learn()
        door = importlib.import_module("pairlearn.estimators")
        model = getattr(door, self.estimator)(random_state=seed)
        registers = {self.loss_parameter: register_at(self.known)} if self.known else {}
        return set_parts(model, settings, OWNED, registers)

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
        ProblemKind("metric", "MetricLearner", "losses.METRIC_LOSSES", "transform", "z"),
    )
}  # fmt: skip


def kind_of(model: Any) -> ProblemKind:
    """Return the problem that a fitted model solves; AUC for all classifiers."""
    # A private estimator solves the problem of the public one.
    name = type(model).__name__.removeprefix("Private")
    kind = next((kind for kind in PROBLEMS.values() if kind.estimator == name), PROBLEMS["auc"])
    if hasattr(model, "score_samples") and not hasattr(model, "decision_function"):
        return replace(kind, scorer="score_samples")  # three grades or more
    return kind
