# SPDX-License-Identifier: BSD-3-Clause
"""The parts of an AUC classifier, checked together, and the solver that "auto" stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pairlearn.estimators.auc.ways.ridge import is_cheap, is_exact
from pairlearn.estimators.shared.solvers import (
    MAPPED_BYTES,
    SGD,
    SOLVERS,
    Exact,
    Moments,
    Solver,
)
from pairlearn.features import FeatureMap, Hats
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.top.objectives import OBJECTIVES, Objective
from pairlearn.typing import Vector
from pairlearn.validation import check_flag, check_verbose


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
        asked = tuple(
            name for name, given in (
                ("callbacks", model.callbacks is not None),
                ("warm_start", check_flag("warm_start", model.warm_start)),
            ) if given
        )  # fmt: skip
        found = cls(
            OBJECTIVES.make(model.objective),
            None if _is_auto(model.solver) else SOLVERS.make(model.solver, also="auto"),
            None if _is_auto(model.loss) else LOSSES.make(model.loss),
            model.features,
            asked,
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
        if isinstance(solver, Moments):
            from pairlearn.estimators.auc.ways.exact_moments import check_ranges

            check_ranges(solver, self.features)
        by_moments = isinstance(solver, Moments) or bool(self.monotone)
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
        if self.monotone and not (
            isinstance(solver, Moments) or (solver is None and not self.asked)
        ):
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
        if self.monotone:
            return Moments()
        too_large = 8.0 * n_rows * features.n_outputs > MAPPED_BYTES
        if not linear and self.suits_moments and (features.closed_form or too_large):
            return Moments()
        return None

    def by_data(self, rows: Rows, y: Vector) -> Solver:
        """Return the solver for these rows: exact if that is cheap, else descent."""
        if self.asked:
            return SGD()
        if not self.objective.over_pairs:
            return Exact()
        loss = self.loss or LOSSES.make("squared_hinge")
        return Exact() if is_exact(loss) and is_cheap(rows, y, loss) else SGD()

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

    @property
    def ways(self) -> Mapping[type, Any]:
        """How to train by each kind of solver."""
        descent = _descent if self.objective.over_pairs else _top_descent
        return {SGD: descent, Exact: _exact, Moments: _moments}

    def loss_for(self, solver: Solver) -> PairLoss:
        """Return the loss: the given one, or the one that suits the solver."""
        if self.loss is not None:
            return self.loss
        if isinstance(solver, Moments):
            return LOSSES.make("square")
        by_default = isinstance(solver, SGD) and self.objective.over_pairs
        return LOSSES.make("hinge" if by_default else "squared_hinge")


def _descent(task: Any, solver: Any) -> Any:
    from pairlearn.estimators.auc.ways.descent import Descent

    return Descent(task, solver)


def _top_descent(task: Any, solver: Any) -> Any:
    from pairlearn.estimators.auc.ways.top import TopDescent

    return TopDescent(task, solver)


def _exact(task: Any, solver: Any) -> Any:
    from pairlearn.estimators.auc.ways.exact import ByMinimising

    return ByMinimising(task, solver)


def _moments(task: Any, solver: Any) -> Any:
    from pairlearn.estimators.auc.ways.moments import ByMoments

    return ByMoments(task, solver)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
