# SPDX-License-Identifier: BSD-3-Clause
"""Linear fits that depend on what the rows hold, and on nothing else: `Moments(ranges=...)`.

The grid of the moments follows from given ranges, so that a row adds the same whole numbers
whenever and wherever it comes. The scales follow from the moments. A ridge that is not given is
chosen on folds of a sample that the contents of the rows draw. So all of `fit`, a stream and a
cluster come to the same numbers, and ask LAPACK the same question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.estimators.auc.composition import Before, Task
from pairlearn.estimators.shared.decisions import Undecided
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.judged_maps import JudgedMap, deal_held_out
from pairlearn.estimators.shared.maps import BYTES_PER_PRODUCT, is_linear
from pairlearn.estimators.shared.published import DEFERRED
from pairlearn.estimators.shared.solvers import Fitted, Moments
from pairlearn.estimators.shared.weights import kept_of_chunk
from pairlearn.features import FeatureMap, Identity
from pairlearn.folds import seed_of
from pairlearn.restored import restored_array, restored_count, restored_number
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments
from pairlearn.solvers.closed_form.stream import next_double
from pairlearn.solvers.closed_form.table import Table
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.sample import ContentSample, Drawn
from pairlearn.typing import Vector
from pairlearn.validation import check_weights, warn_caller

#: A feature whose standard deviation is fewer quanta than this has too coarse a grid.
_FEW_QUANTA = 256.0


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

    `everything` holds the moments of all examples. A model is trained on all but a fold of the
    sample: moments are whole numbers, so those of the fold are taken away, and no row is read for
    it. A ridge that is chosen by models of the sample alone would be too strong for many examples.
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


#: What predictions of a stream are made of while it has not been asked for.
LATER: Mapping[str, Any] = {
    "coef_": None,
    "_decision": None,
    DEFERRED: ("coef_", "features_", "_decision", "choice_", "ridge_", "held_out_auc_"),
}


def chosen(choice: Choice | None) -> dict[str, Any]:
    """Return the choice of a stream as fitted attributes; none is left for later."""
    own = choice or Choice()
    return {"choice_": choice, "ridge_": own.ridge, "held_out_auc_": own.auc, DEFERRED: ()}


def facts_of(n: int, half_life: float) -> dict[str, Any]:
    """Return the fitted attributes of a stream of n examples."""
    return {
        "step_size_": None,
        "radius_": np.inf,
        "n_steps_": n,
        "n_gradients_": n,
        "n_examples_": n,
        "trace_": Trace(n_steps=n, n_gradients=n),
        "half_life_": half_life,
    }


@dataclass(frozen=True, eq=False)
class ExactRows:
    """The rows so far: their moments on a grid, and a sample. New rows make a new object."""

    moments: MappedMoments
    sample: ContentSample
    n_examples: int = 0

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

    def state(self) -> dict[str, Any]:
        """Return everything as plain values and arrays."""
        return {
            "n_examples": self.n_examples,
            "moments": self.moments.table.state(),
            "sample": self.sample.state(),
        }

    def restored(self, state: Mapping[str, Any]) -> ExactRows:
        """Return the rows of a saved state on the same grid."""
        n, grid = restored_count(state, "n_examples"), self.moments.grid
        found = Table.from_state(state["moments"])
        if found.grid is None or not grid.same_as(found.grid):
            raise ValueError("the saved moments are on another grid than that of the ranges.")
        sample = ContentSample.from_state(state["sample"], grid.n_features)
        return ExactRows(self.moments.holding(found), sample, n)


class ExactWay:
    """How an AUC classifier trains by `Moments` with ranges."""

    def __init__(self, task: Task, solver: Moments) -> None:
        self.task, self.solver = task, solver

    def _rows(self, n_features: int) -> ExactRows:
        check_memory(n_features, self.solver)
        moments = MappedMoments.none(Identity.of(n_features), grid=self.solver.grid(n_features))
        return ExactRows(moments, ContentSample(n_features, seed=seed_of(self.task.rng)))

    def fit(self, rows: Rows, y: Vector) -> Fitted:
        """Return the minimiser of the square loss plus a ridge."""
        task = self.task
        assert task.counts is not None
        found = self._rows(rows.shape[1]).plus(rows, y, task.counts)
        w, choice = found.solve(task, self.solver.given_ridge)
        warn_of_wide_ranges(found.moments, found.sample.drawn().X)
        trace = Trace(n_steps=len(y), n_gradients=len(y))
        kept = found.moments if self.solver.keep_state else None
        return Fitted(w, "moments", task.loss, choice, trace, kept=kept)

    def stream(self, n_features: int, before: Before | None = None) -> ExactStream:
        """Return what learns chunks by adding their moments."""
        if before is not None:
            raise ValueError(
                "a stream by moments cannot go on from fit, which does not keep all of them; teach "
                "a new model by partial_fit alone."
            )
        return ExactStream(self.task, self.solver.given_ridge, self._rows(n_features))


class ExactStream:
    """A stream that remembers everything, and can take rows back.

    Its coefficients do not depend on the order of the examples, and threshold and probabilities are
    those of the scores of the sample. The scores of a chunk before it was learned are by the model
    of the first 8, 16, 32, ... examples, and 0 halfway between its classes: wherever features lie,
    scores of several models compare.
    """

    kind = "moments"
    scales = None
    weighs_classes = False

    def __init__(self, task: Task, ridge: float | None, rows: ExactRows) -> None:
        self._task, self._ridge, self._rows = task, ridge, rows
        self.loss = task.loss
        # The coefficients that score the next examples, the score halfway between the classes, and
        # when both are found anew.
        self._w: Vector | None = None
        self._middle = 0.0
        self._next = next_double(0)

    @property
    def moments(self) -> MappedMoments:
        """The moments of all examples."""
        return self._rows.moments

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before.

        Examples without weight are as if they had not come, and have no score (NaN).
        """
        kept = kept_of_chunk(weight, begun=True)
        if kept is not None:
            found = np.full(len(y), np.nan)
            found[kept] = self.learn(rows.take(kept), y[kept], weight[kept])
            return found
        before, scores, start = dict(vars(self)), np.zeros(len(y)), 0
        try:
            while start < len(y):
                now = slice(start, min(len(y), start + self._next - self._rows.n_examples))
                part = rows.take(np.arange(now.start, now.stop))
                if self._w is not None:
                    scores[now] = part.scores(self._w) - self._middle
                own = weight[now] if len(weight) else weight
                self._rows = self._rows.plus(part, y[now], own)
                if self._rows.n_examples == self._next:
                    self._next = next_double(self._next)
                    if self._rows.has_both:
                        self._find_scores()
                start = now.stop
        except BaseException:
            vars(self).update(before)
            raise
        return scores

    def take_back(
        self, rows: Rows, y: Vector, weight: Vector
    ) -> tuple[MappedMoments, MappedMoments, MappedMoments]:
        """Take back examples; return the moments before, of the examples, and after."""
        before = self._rows.moments
        rest, gone = self._rows.minus(rows, y, weight)
        if not rest.has_both:
            raise ValueError(
                "no example of one of the classes would be left; a model needs both. Begin a new "
                "stream when there are other examples."
            )
        self._rows = rest
        # What scores the next examples has seen these.
        self._find_scores()
        self._next = next_double(self._rows.n_examples)
        return before, gone, self._rows.moments

    def _find_scores(self) -> None:
        """Find what scores the next examples."""
        w = self._rows.solve(self._task, self._ridge)[0]
        self._w, self._middle = w, float(w @ self.moments.values.means.mean(axis=0))

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        return facts_of(self._rows.n_examples, np.inf)

    def published(self) -> Mapping[str, Any]:
        """Return what predictions are made of: all of it is found later."""
        return LATER

    def finish(self, model: Any) -> dict[str, Any]:
        """Return what predictions are made of, found now."""
        exact = self._rows
        features = exact.moments.features
        coef = np.zeros(features.n_outputs)
        choice = None
        window = np.empty(0), np.empty(0, dtype=bool), np.empty(0)
        if exact.has_both:
            coef, choice = exact.solve(self._task, self._ridge)
            X, y, weight, _ = exact.sample.drawn()
            warn_of_wide_ranges(exact.moments, X)
            window = X @ coef, y > 0, self._of_classes(y, weight)
        return {
            "coef_": coef[np.newaxis],
            "features_": features,
            "_decision": Undecided(*window, weighs_classes=False),
            **chosen(choice),
        }

    def _of_classes(self, y: Vector, weight: Vector) -> Vector:
        """Return weights of the sample with which its classes weigh as much as all examples do."""
        found = weight.copy() if len(weight) else np.ones(len(y))
        totals = self._rows.moments.values.counts[::-1]
        if len(weight):  # as numbers of examples
            totals = totals / weight.mean()
        for sign, total in zip((-1.0, 1.0), totals, strict=True):
            own = y == sign
            found[own] *= total / found[own].sum()
        return found

    def restart(self) -> None:
        """Refuse to forget all but the latest past."""
        raise ValueError(
            "a stream with ranges remembers everything; take rows back by partial_unfit, or leave "
            "out ranges for a stream that forgets."
        )

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        scoring = {"w": self._w, "middle": self._middle, "next": self._next}
        return {"moments": {"exact": self._rows.state(), **scoring}}

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        saved = state["moments"]
        if "exact" not in saved:
            raise ValueError("the saved stream was learned without ranges.")
        self._rows = self._rows.restored(saved["exact"])
        w = saved["w"]
        self._w = None if w is None else restored_array(saved, "w", (n_features,))
        self._middle = restored_number(saved, "middle")
        n = self._rows.n_examples
        self._next = restored_count(saved, "next", minimum=n + 1, maximum=next_double(n))
