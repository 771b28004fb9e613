# SPDX-License-Identifier: BSD-3-Clause
"""Train by passes over partitions: the engine, and the solvers with their settings.

An engine is one function: from a statistic to the merged state of all partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.scales import MajorityCounts, Scales
from pairlearn.estimators.auc.ways.exact_moments import check_ranges
from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.estimators.shared.solvers import SOLVERS, Exact, Moments, Solver
from pairlearn.features import FeatureMap
from pairlearn.solvers.exact.batch import descend
from pairlearn.solvers.streams.sample import SIZE
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_positive, warn_caller

#: Runs a statistic over all partitions and returns the merged state.
Pass = Callable[[Statistic], State]


@dataclass(frozen=True, repr=False)
class _PassSolver(Solver):
    """Base class of solvers that train by passes over partitions."""

    ridge: float | str = "auto"

    def __post_init__(self) -> None:
        chooses = type(self)._chooses()
        if chooses and self.ridge == "auto":
            return
        if isinstance(self.ridge, str) or not self.ridge >= 0.0:
            rule = 'at least 0 or "auto"' if chooses else "at least 0"
            raise ValueError(f"ridge must be {rule}, got {self.ridge!r}.")

    @classmethod
    def _chooses(cls) -> bool:
        """Return whether the solver can choose its ridge; then that is the default."""
        return isinstance(cls.ridge, str)

    @property
    def given_ridge(self) -> float | None:
        """The ridge, if it is a number."""
        return None if isinstance(self.ridge, str) else float(self.ridge)

    @classmethod
    def of(cls, given: str | Solver) -> Self:
        """Return the solver with a given name, or the given one; `Exact` lends its ridge."""
        solver = SOLVERS.make(given)
        if isinstance(solver, cls):
            return solver
        if type(solver) is Exact:
            return cls() if solver.ridge == "auto" else cls(solver.ridge)
        raise ValueError(
            f"this training by passes over partitions takes solver={SOLVERS.name_of(cls())!r}, a "
            f"{cls.__name__} or Exact(ridge), got {solver!r}."
        )


@dataclass(frozen=True, repr=False)
class _Descent(_PassSolver):
    """Base class of solvers that minimise by L-BFGS, with one pass or two for each gradient."""

    tolerance: float = 1e-6
    max_passes: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("tolerance", self.tolerance)
        check_count("max_passes", self.max_passes)

    def minimise(
        self,
        risk: Callable[[Vector], tuple[float, Vector]],
        start: Vector,
        scatter: Vector,
        ridge: float,
    ) -> Vector:
        """Return the minimiser of the risk plus the ridge; warn if `max_passes` ends the search."""
        w, _, stopped = descend(
            risk,
            start,
            scatter,
            ridge=ridge,
            tolerance=self.tolerance,
            max_iterations=self.max_passes,
        )
        if stopped:
            warn_caller(
                f"The search stopped after {self.max_passes} iterations; raise max_passes or "
                "tolerance.",
                RuntimeWarning,
            )
        return w


@SOLVERS.add("passes")
@dataclass(frozen=True, repr=False)
class ByPasses(_Descent):
    """The minimiser of the mean loss over all opposite pairs of all partitions, plus a ridge.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        As of `Exact`; "auto" chooses it on a sample of each class, with the smoothed hinge for the
        hinge.
    tolerance : float, default=1e-6
        The search stops when an iteration lowers the objective by less than this share.
    max_passes : int, default=100
        The limit on iterations.
    n_bins : int, default=512
        The number of score bins of each class. Gradients come from the bins.
    sample_size : int, default=2500
        The number of examples of each class that come to the client.

    Examples
    --------
    >>> ByPasses(ridge=0.1)
    ByPasses(ridge=0.1)
    """

    n_bins: int = 512
    sample_size: int = SIZE

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("n_bins", self.n_bins, minimum=2)
        check_count("sample_size", self.sample_size)


@SOLVERS.add("query_passes")
@dataclass(frozen=True, repr=False)
class QueryPasses(_Descent):
    """The minimiser of the mean loss over the pairs within queries, plus a ridge.

    Parameters
    ----------
    ridge : float, default=1e-4
        The weight of the squared norm of the coefficients, for features of mean variance 1.
    tolerance, max_passes : see `ByPasses`
        As of `ByPasses`.

    Examples
    --------
    >>> QueryPasses(ridge="auto")
    Traceback (most recent call last):
        ...
    ValueError: ridge must be at least 0, got 'auto'.
    """

    ridge: float = 1e-4


@SOLVERS.add("one_pass")
@dataclass(frozen=True, repr=False)
class OnePass(_PassSolver):
    """The metric of the scatters of all pairs, from one pass; see `metric_of`.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        The multiple of the identity that both scatters get, in units of the mean variance of pairs
        of equal labels. "auto" takes the best of 0.001, ..., 10 by nearest neighbours on a sample.
    max_classes : int, default=100
        The limit on the number of labels: each has its own moments.
    sample_size : int, default=500
        The number of examples of each class that come to the client.

    Examples
    --------
    >>> OnePass(0.1).with_params(max_classes=10)
    OnePass(ridge=0.1, max_classes=10)
    """

    max_classes: int = 100
    sample_size: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("max_classes", self.max_classes)
        check_count("sample_size", self.sample_size)


@SOLVERS.add("class_passes")
@dataclass(frozen=True, repr=False)
class ClassPasses(_PassSolver):
    """A score for each pair of many classes in closed form, from two passes.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        As of `MulticlassAUCClassifier`; "auto" takes the best of 100, 10, ..., 1e-6 by Hand and
        Till's M on folds of a sample.
    max_classes : int, default=100
        The limit on the number of labels: each has its own moments.
    sample_size : int, default=1000
        The number of examples of each class that come to the client.

    Examples
    --------
    >>> ClassPasses(0.1)
    ClassPasses(ridge=0.1)
    """

    max_classes: int = 100
    sample_size: int = 1_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("max_classes", self.max_classes, minimum=2)
        check_count("sample_size", self.sample_size)


def auc_solver(given: str | Solver, features: str | FeatureMap = "linear") -> ByPasses | Moments:
    """Return the solver of AUC over partitions: `Moments` as it is, others as `ByPasses`.

    >>> auc_solver(Exact(0.1)), auc_solver("moments")
    (ByPasses(ridge=0.1), Moments())
    """
    solver = SOLVERS.make(given)
    if type(solver) is not Moments:
        return ByPasses.of(solver)
    if solver.memory not in ("auto", np.inf):
        raise ValueError(
            f"memory={solver.memory!r} is for a stream: partitions have no order, and all rows "
            'weigh alike. Leave memory at "auto".'
        )
    check_ranges(solver, features)
    return solver


class Passes:
    """Runs passes, counts them and reports the purpose of each.

    `run` is the engine. `progress` is called before each pass with its number and its purpose.
    """

    def __init__(self, run: Pass, progress: Callable[[int, str], None] | None = None) -> None:
        self._run, self._progress, self.n_passes = run, progress, 0

    def __call__(self, statistic: Statistic, purpose: str) -> Any:
        """Return the result of a statistic for all partitions."""
        self.n_passes += 1
        if self._progress is not None:
            self._progress(self.n_passes, purpose)
        return statistic.finish(self._run(statistic))


def scaling_by_passes(
    scales: Scales,
    scaled: bool,
    passes: Passes,
    *,
    of: Callable[[Statistic], Statistic] = lambda statistic: statistic,
) -> Scaling:
    """Return the scaling of all rows, or one that changes nothing if not `scaled`.

    `of` narrows a statistic to the rows that the scales are about.
    """
    if not scaled:
        ones = np.ones(len(scales.atom))
        return Scaling(ones, np.zeros_like(ones), ones)
    counts = None
    if scales.needs_counts:
        counts = passes(of(MajorityCounts(scales)), "frequent values")
    return scales.scaling(counts)
