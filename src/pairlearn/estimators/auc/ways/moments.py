# SPDX-License-Identifier: BSD-3-Clause
"""AUC with the square loss in closed form, from the moments of the two classes.

With `Moments(ranges=...)` a linear fit depends on what the rows hold, and on nothing else. The grid
of the moments follows from the ranges, so that a row adds the same whole numbers whenever and
wherever it comes. The scales follow from the moments. A ridge that is not given is chosen on folds
of a sample that the contents of the rows draw. So all of `fit`, a stream and a cluster come to the
same numbers, and ask LAPACK the same question.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.estimators.auc.composition import Task
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.judged_maps import JudgedMap, deal_held_out
from pairlearn.estimators.shared.maps import BYTES_PER_PRODUCT, is_linear
from pairlearn.estimators.shared.scaling import warn_of_constants
from pairlearn.estimators.shared.solvers import Fitted, Moments
from pairlearn.features import FeatureMap, Identity
from pairlearn.folds import seed_of
from pairlearn.solvers.closed_form.mapped_moments import (
    FloatRows,
    MappedMoments,
    RidgeProblem,
    RowsProblem,
    extents_of,
)
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.sample import SIZE, ContentSample, Drawn, drawn_from
from pairlearn.typing import Vector
from pairlearn.validation import check_weights, warn_caller

#: A feature whose standard deviation is fewer quanta than this has too coarse a grid.
_FEW_QUANTA = 256.0


def solve_by_moments(task: Task, solver: Moments, rows: Rows, y: Vector, weight: Vector) -> Fitted:
    """Return the minimiser of the square loss plus a ridge, and how its ridge was chosen.

    Without a ridge the best of 1, .1, ... is taken, by AUC on held-out training data: those of
    a sample, if a class has more examples.
    """
    if solver.memory != "auto" and solver.memory != np.inf:
        raise ValueError(
            f"memory={solver.memory!r} is for a stream: fit weighs all rows alike. Use "
            'partial_fit, or memory="auto".'
        )
    features, ridge = task.features, solver.given_ridge
    assert features is not None
    check_memory(features.n_outputs, solver)
    trace = Trace(n_steps=len(y), n_gradients=len(y))
    if solver.ranges is not None:
        assert task.counts is not None
        exact = ExactRows.none(task, solver, rows.shape[1]).plus(rows, y, task.counts)
        w, choice = exact.solve(task, ridge)
        warn_of_wide_ranges(exact.moments, exact.sample.drawn().X)
        state = exact.moments if solver.keep_state else None
        return Fitted(w, "moments", task.loss, choice, trace, kept=state)
    if not features.n_outputs:  # hats of constants
        warn_of_constants(rows.shape[1])
        return Fitted(np.zeros(0), "moments", task.loss, Choice(ridge=ridge), trace)
    if len(weight) and not weight.all():
        kept = np.flatnonzero(weight)
        rows, y, weight = rows.take(kept), y[kept], weight[kept]
        task = replace(task.of_some(kept), judged=None)
    choice, moments, judged = Choice(ridge=ridge), None, task.judged
    many = max((y > 0).sum(), (y < 0).sum()) > SIZE
    if solver.keep_state or (many and judged is None and ridge is None):
        own = weight if len(weight) else None
        moments = MappedMoments.none(features, extents_of(features, rows, own))
        moments = moments.plus(rows, y, own)
    if ridge is None and judged is None:
        assert task.keys is not None
        if many:
            assert moments is not None
            choice = ridge_on(drawn_from(rows, y, weight, task.keys.seed), moments, task, None)
        else:
            fold, n_held = deal_held_out(y, weight, task.validation_fraction, task.keys)
            given = features, rows, y, weight, fold, n_held
            judged = JudgedMap(*given, signs=task.signs, scaled=task.is_scaled)
    if ridge is None and judged is not None:
        choice = judged.choice()
    problem: RidgeProblem | RowsProblem
    if moments is not None:
        problem = moments.problem(scaled=task.is_scaled)
    elif ridge is None and judged is not None:
        problem = judged.problem(scaled=task.is_scaled)
    else:
        floats = FloatRows(features, rows, weight)
        problem = floats.problem(floats.table(y, np.arange(len(y))), scaled=task.is_scaled)
    assert choice.ridge is not None
    w = problem.solve(choice.ridge, signs=task.signs, margin=task.margin)
    return Fitted(
        w, "moments", task.loss, choice, trace, kept=moments if solver.keep_state else None
    )


def check_ranges(solver: Any, features: str | FeatureMap) -> None:
    """Refuse ranges for mapped features: the grid of a map is that of its own bounds."""
    if isinstance(solver, Moments) and solver.ranges is not None and not is_linear(features):
        raise ValueError(
            f"ranges are those of linear features, got features={features!r:.60}; use "
            'features="linear", or leave out ranges.'
        )


def check_memory(n_outputs: int, solver: Moments) -> None:
    """Refuse moments of so many mapped features if they take more than `max_memory`."""
    size, most = BYTES_PER_PRODUCT * n_outputs**2, solver.max_memory
    if size > most:
        raise ValueError(
            f"The moments of {n_outputs} mapped features take about {size / 2**30:.1f} GiB, "
            f"max_memory={most:g} bytes; use a map with fewer features, or a larger max_memory."
        )


def warn_of_wide_ranges(moments: MappedMoments, X: Vector) -> None:
    """Warn if a feature that varies in rows X does so by few steps of the grid of its range."""
    if not moments.has_given_grid or not len(X):
        return
    spread = np.sqrt(np.maximum(moments.values.variances.max(axis=0), 0.0))
    few = spread < _FEW_QUANTA * np.ldexp(1.0, moments.grid.exponents)
    places = np.flatnonzero(few & (X.max(axis=0) > X.min(axis=0)))
    if len(places):
        warn_caller(
            f"Feature {int(places[0])} varies by fewer than {_FEW_QUANTA:.0f} steps of the grid "
            "that its range makes, and loses digits; give narrower ranges, or the feature another "
            "origin.",
            UserWarning,
        )


def ridge_on(sample: Drawn, everything: MappedMoments, task: Task, given: float | None) -> Choice:
    """Return the given ridge, or the best on held-out folds of a sample.

    A model is trained on all examples but a fold of the sample: moments are whole numbers, so those
    of the fold are taken away. A ridge chosen by the sample alone would be too strong for many.
    """
    if given is not None:
        return Choice(ridge=given)
    X, y, weight, keys = sample
    own = weight if len(weight) else np.ones(len(y))
    listed = np.array([own[y > 0].sum(), own[y < 0].sum()])
    share = listed / everything.values.counts
    n_folds = None
    if not np.allclose(share, 1.0, rtol=1e-9):
        # All of the sample is held out, in as few folds as have at most their share of a class.
        n_folds = int(np.ceil(share.max() / task.validation_fraction - 1e-9))
    fold, n_held = deal_held_out(y, weight, task.validation_fraction, keys, n_folds=n_folds)
    judged = JudgedMap(
        everything.features,
        DenseRows(X),
        y,
        weight,
        fold,
        n_held,
        signs=task.signs,
        scaled=task.is_scaled,
        everything=everything,
    )
    return judged.choice()


@dataclass(frozen=True, eq=False)
class ExactRows:
    """The rows so far: their moments on a grid, and a sample. New rows make a new object."""

    moments: MappedMoments
    sample: ContentSample
    n_examples: int = 0

    @classmethod
    def none(cls, task: Task, solver: Moments, n_features: int) -> ExactRows:
        """Return the state of no rows."""
        moments = MappedMoments.none(Identity.of(n_features), grid=solver.grid(n_features))
        return cls(moments, ContentSample(n_features, seed=seed_of(task.rng)))

    def plus(self, rows: Rows, y: Vector, weight: Vector) -> ExactRows:
        """Return the state with more examples; `weight` may be empty."""
        moments = self.moments.plus(rows, y, self._whole(weight, len(y)))
        sample = self.sample.copy().add(rows, y, weight)
        return ExactRows(moments, sample, self.n_examples + len(y))

    def minus(self, rows: Rows, y: Vector, weight: Vector) -> tuple[ExactRows, MappedMoments]:
        """Return the state without examples that it has, and their moments."""
        gone = self.moments.alike().plus(rows, y, self._whole(weight, len(y)))
        moments, sample = self.moments.without(gone), self.sample.without(rows, y, weight)
        return ExactRows(moments, sample, self.n_examples - len(y)), gone

    @staticmethod
    def _whole(weight: Vector, n: int) -> Vector | None:
        """Return the weights, which must be whole numbers."""
        if not len(weight):
            return None
        own = check_weights(weight, n, name="sample_weight")
        if not (np.rint(own) == own).all():
            raise ValueError(
                "with ranges, weights must be whole numbers, got "
                f"{float(own[np.rint(own) != own][0]):g}; multiply all weights by one number, "
                "or leave out ranges."
            )
        return own

    @property
    def has_both(self) -> bool:
        """Whether both classes have come."""
        return bool((self.moments.table.totals > 0).all())

    def solve(self, task: Task, given_ridge: float | None) -> tuple[Vector, Choice]:
        """Return the coefficients and the choice of the ridge."""
        choice = ridge_on(self.sample.drawn(), self.moments, task, given_ridge)
        assert choice.ridge is not None
        problem = self.moments.problem(scaled=task.is_scaled)
        return problem.solve(choice.ridge, margin=task.margin), choice
