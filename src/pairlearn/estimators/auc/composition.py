# SPDX-License-Identifier: BSD-3-Clause
"""The parts of an AUC classifier, checked together, and the task that its solver is given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.solvers import (
    MAPPED_BYTES,
    SGD,
    SOLVERS,
    Exact,
    Fitted,
    Moments,
    Solver,
    check_solver,
)
from pairlearn.features import FeatureMap, Hats
from pairlearn.folds import Keys
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.running import Callback
from pairlearn.solvers.top.objectives import OBJECTIVES, Objective
from pairlearn.typing import Vector
from pairlearn.validation import check_flag, check_verbose

if TYPE_CHECKING:
    from pairlearn.estimators.shared.decisions import Decision
    from pairlearn.estimators.shared.judged_maps import JudgedMap


@dataclass(frozen=True)
class Before:
    """The model that a stream continues."""

    coef: Vector
    #: Number of examples that it was learned from, which sets the step size.
    n_examples: int
    decision: Decision
    #: Scales of its features, if they are known.
    scales: Any = None
    #: The row from which the stream before measured its scores.
    origin: Vector | None = None


@dataclass(frozen=True)
class Task:
    """All settings of a fit of two classes, without the examples.

    `features` is the fitted map; None if a stream has yet to fit it. `validation_fraction` is the
    share of a fold. `free` says that solver, loss and ridge are all automatic, so that a share of
    Fisher's discriminant may be mixed in.
    """

    objective: Objective
    loss: PairLoss
    features: FeatureMap | None
    is_scaled: bool
    rng: np.random.Generator
    validation_fraction: float = 0.2
    free: bool = False
    n_jobs: int | None = None
    verbose: int = 0
    callbacks: Sequence[Callback] = ()
    #: Deal folds and draw samples; None for a stream, which has neither.
    keys: Keys | None = None
    #: Coefficients to start from.
    start: Vector | None = None
    #: Signs of coefficients, for monotone functions.
    signs: NDArray[np.int64] | None = None
    #: The map that was chosen as it was judged, if it was; linear features are fitted anew.
    judged: JudgedMap | None = None
    #: How often each example counts, without the weights of classes; None for a stream.
    counts: Vector | None = None
    #: Fits the map of a stream to its first examples.
    fit_map: Any = field(default=None, compare=False)

    def solve(self, solver: Solver, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Train by a solver of the library."""
        check_solver(solver, (SGD, Exact, Moments), "AUCClassifier")
        way: Callable[..., Fitted]
        if isinstance(solver, Moments):
            from pairlearn.estimators.auc.ways.moments import solve_by_moments as way
        elif isinstance(solver, Exact):
            from pairlearn.estimators.auc.ways.exact import solve_exactly as way
        elif self.objective.over_pairs:
            from pairlearn.estimators.auc.ways.descent import solve_by_descent as way
        else:
            from pairlearn.estimators.auc.ways.top import solve_top_by_descent as way
        return way(self, solver, rows, y, weight)

    def stream(self, solver: Solver, n_features: int, before: Before | None) -> Any:
        """Return what learns chunks by a solver of the library."""
        check_solver(solver, (SGD, Moments), "a stream of AUCClassifier")
        if isinstance(solver, Moments):
            from pairlearn.estimators.auc.ways.moment_streams import stream_by_moments

            return stream_by_moments(self, solver, n_features, before)
        assert isinstance(solver, SGD)
        if self.objective.over_pairs:
            from pairlearn.estimators.auc.ways.descent import DescentStream

            return DescentStream(self, solver, before)
        from pairlearn.estimators.auc.ways.top import TopDescentStream

        return TopDescentStream(self, solver, n_features, before)

    @property
    def margin(self) -> float:
        """The margin of the square loss, 1 for a loss that has none."""
        return float(self.loss.parameter) if self.loss.by_moments else 1.0

    def of_some(self, index: NDArray[np.int64]) -> Task:
        """Return the task for some of the examples."""
        return self if self.keys is None else replace(self, keys=self.keys.take(index))

    def tell(self, text: str, choice: Choice | None = None) -> None:
        """Tell a person on stderr what was chosen, if asked to."""
        if self.verbose:
            print(text + self.evidence(choice), file=sys.stderr)

    def evidence(self, choice: Choice | None) -> str:
        """Return how good the chosen candidate was, for a person."""
        found = None if choice is None else choice.evidence
        if found is None:
            return ""
        error = "" if found.n_folds == 1 else f" +- {found.standard_error:.4f}"
        return f", held-out {self.objective.title} {found.auc:.4f}{error}"


@dataclass(frozen=True)
class Composition:
    """The objects that the parameters of an AUC classifier stand for, checked together.

    `solver` is None if the data choose it, `loss` is None for the loss that suits the solver.
    `asked` names the given parameters that only some solvers use.
    """

    objective: Objective
    solver: Solver | None
    loss: PairLoss | None
    features: Any
    asked: tuple[str, ...]
    is_scaled: bool

    @classmethod
    def of(cls, model: Any) -> Composition:
        """Return the composition of an estimator; refuse parts that do not go together."""
        check_verbose(model.verbose)
        warm = check_flag("warm_start", model.warm_start)
        asked = {"callbacks": model.callbacks is not None, "warm_start": warm}
        found = cls(
            OBJECTIVES.make(model.objective),
            None if _is_auto(model.solver) else SOLVERS.make(model.solver, also="auto"),
            None if _is_auto(model.loss) else LOSSES.make(model.loss),
            model.features,
            tuple(name for name, given in asked.items() if given),
            model.scaling is not None,
        )
        found.check()
        return found

    @property
    def monotone(self) -> Mapping[Any, int] | None:
        """The monotone functions that the features ask for."""
        return self.features.monotone if isinstance(self.features, Hats) else None

    def check(self) -> None:
        """Refuse a combination in which one part would ignore another."""
        solver, objective = self.solver, self.objective
        for name in self.asked:
            if solver is not None and name not in solver.takes:
                raise ValueError(
                    f'{solver!r} would ignore {name}; leave it at its default, or use solver="sgd".'
                )
            if not objective.over_pairs:
                raise ValueError(
                    f"{objective!r} would ignore {name}, which is about pairs of examples; leave "
                    'it at its default, or use objective="auc".'
                )
        by_moments = isinstance(solver, Moments) or bool(self.monotone)
        if isinstance(solver, Moments) and solver.ranges is not None:
            from pairlearn.estimators.auc.ways.moments import check_ranges

            check_ranges(solver, self.features)
        if by_moments and self.loss is not None and not self.loss.by_moments:
            raise ValueError(
                f"class moments suffice for the square loss only, got loss="
                f'{self.loss!r}; use loss="square" or "auto", or solver="exact".'
            )
        if by_moments and not objective.over_pairs:
            raise ValueError(
                f"{objective!r} needs more than class moments, by which monotone functions are "
                'learned: use solver="exact" without monotone, or objective="auc".'
            )
        own = isinstance(solver, Moments) or (solver is None and not self.asked)
        if self.monotone and not own:
            raise ValueError(
                'monotone functions are found by solver="moments"; use it, or solver="auto" '
                "without callbacks and warm_start."
            )
        if self.loss is not None:
            objective.check_loss(self.loss)

    @property
    def is_free(self) -> bool:
        """Whether solver, loss and scales are all automatic."""
        return self.is_scaled and self.solver is None and self.loss is None

    @property
    def suits_moments(self) -> bool:
        """Whether class moments can do everything that is asked for."""
        closed = self.loss is None or self.loss.by_moments
        return self.solver is None and closed and self.objective.over_pairs and not self.asked

    def before_mapping(self, features: FeatureMap, n_rows: int, *, linear: bool) -> Solver | None:
        """Return the solver, if the features decide about it or it is given."""
        if self.solver is not None:
            return self.solver
        too_large = 8.0 * n_rows * features.n_outputs > MAPPED_BYTES
        by_moments = not linear and self.suits_moments and (features.closed_form or too_large)
        return Moments() if self.monotone or by_moments else None

    def by_data(self, rows: Rows, y: Vector) -> Solver:
        """Return the solver for these rows: exact if that is cheap, else descent."""
        if self.asked:
            return SGD()
        if not self.objective.over_pairs:
            return Exact()
        from pairlearn.estimators.auc.ways.exact import is_cheap

        return Exact() if is_cheap(rows, y, self.loss or LOSSES.make("squared_hinge")) else SGD()

    def of_stream(self, n_outputs: int | None, *, going_on: bool = False) -> Solver:
        """Return the solver of a stream: by default moments, or descent for many features.

        `n_outputs` is the number of mapped features, None if the map is fitted to the first
        examples. A stream that is `going_on` from a fit has no moments to go on from.
        """
        if isinstance(self.solver, Exact) and not isinstance(self.solver, Moments):
            raise ValueError(
                f'partial_fit needs solver="sgd", "moments" or "auto", got {self.solver!r}.'
            )
        if "callbacks" in self.asked:
            raise ValueError(
                "partial_fit would ignore callbacks, which fit calls between its blocks of steps; "
                "leave out callbacks, and look at the model after each chunk."
            )
        if self.solver is not None:
            return self.solver
        from pairlearn.solvers.closed_form.stream import MOST_BY_MOMENTS

        fits = n_outputs is None or n_outputs <= MOST_BY_MOMENTS
        if self.suits_moments and fits and not going_on:
            return Moments()
        return SGD(pairing="opposite") if self.objective.over_pairs else SGD()

    def loss_for(self, solver: Solver) -> PairLoss:
        """Return the loss: the given one, or the one that suits the solver."""
        if self.loss is not None:
            return self.loss
        if isinstance(solver, Moments):
            return LOSSES.make("square")
        by_default = isinstance(solver, SGD) and self.objective.over_pairs
        return LOSSES.make("hinge" if by_default else "squared_hinge")


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
