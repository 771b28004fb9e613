# SPDX-License-Identifier: BSD-3-Clause
"""Exact training for data in memory: the minimiser of an objective plus a ridge.

Ridges are tried from strong to weak on stratified folds. A fold starts from its own last model,
never from a model that has seen its held-out part. If an objective has rivals, each goes through
the ridges, and the best of all wins. A non-convex objective is pulled towards the minimiser for all
pairs (its anchor); the ridge of the anchor is chosen first.

If a class has few examples, shares of Fisher's discriminant are tried on the same folds: a pair
loss learns the spread of a handful of examples, which is noise, and the discriminant takes the
spread of all. A share is taken if its AUC on the folds is better by a standard error. The share of
an anchor, which only pulls, is the best by AUC, which is less noisy than metrics of the top.

The guide "What auto does" has the rules, the numbers and the measurements behind them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.estimators.auc.composition import Task
from pairlearn.estimators.shared.evidence import Best, Candidate, Choice, best_of, threads
from pairlearn.estimators.shared.solvers import Exact, Fitted
from pairlearn.estimators.shared.weights import judged_auc
from pairlearn.folds import members_of, n_folds_of, n_repeats_of, stratified
from pairlearn.losses import PairLoss
from pairlearn.solvers.closed_form.fisher import FISHER_BELOW, with_fisher
from pairlearn.solvers.exact.batch import ExactSolver, PairObjective
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.objectives import AllPairs, Objective, Push
from pairlearn.typing import Vector

#: "auto" is exact up to this many products n d min(d, `_CHEAP_WIDTH`) of rows that are not wide.
_CHEAP_PRODUCTS = 5e7
#: The number of columns from which on the estimate above grows with d, no longer with its square.
_CHEAP_WIDTH = 100
#: "auto" is exact for rows of at most this many stored numbers.
_CHEAP_NUMBERS = 4_000_000
#: "auto" is exact for a loss without sorted sums up to this many pairs: a fit visits all of them.
_CHEAP_PAIRS = 250_000
#: Rows of at least this many columns are wide. The AUC of sparse ones hardly changes with the
#: ridge, and a careful search would cost many times logistic regression.
_MANY_COLUMNS = 1_000
#: From this many examples of the rarer class on, two folds are enough.
_MANY = 1_000
#: The power of ten of the weakest ridge, for rows of mean variance 1.
_WEAKEST = -6
#: Pairs of wider rows are farther apart: each tenfold of this many columns adds a stronger ridge.
_STANDARD_WIDTH = 100
#: The most examples of each class that choose the ridge; the model is trained on all.
_CLASS_CAP = 2_000
#: The same for a loss that visits all pairs, which costs the square of this.
_ALL_PAIRS_CAP = 500
#: The same if precision is measured: only few of the negatives are at the top of the list.
_PRECISION_CAP = 10_000
#: The shares that are tried, besides 0.
_FISHER_SHARES = (0.25, 0.5, 0.75, 1.0)
#: Sparse rows of more columns stay sparse.
_NARROW = 100
#: Narrow sparse rows become dense if that takes at most this many times the stored numbers...
_MOST_FILLED = 10
#: ...plus this many numbers, which take less than a megabyte.
_FEW_NUMBERS = 100_000
_ALL = AllPairs()


@dataclass(frozen=True)
class _Effort:
    """How carefully a ridge is searched for."""

    #: With this many examples of the rarer class two folds are enough.
    many: int = _MANY
    #: This many ridges in a row without gain end the search.
    patience: int = 2
    #: Relative precision of the models that are only compared.
    rough: float = 1e-4
    #: Relative precision of the final model.
    fine: float = 1e-6


#: The AUC of text hardly depends on the ridge.
_NUMBERS, _TEXT = _Effort(), _Effort(many=100, patience=1, rough=1e-3, fine=1e-5)
#: A candidate with the models of the folds.
_Candidate = Candidate[list[Vector]]
_Best = Best[list[Vector]]


def is_cheap(rows: Rows, y: Vector, loss: PairLoss) -> bool:
    """Whether the exact solution is no more work than descent, or hardly more."""
    try:
        ExactSolver(loss)
    except ValueError:  # it is not convex, not smooth, or not of opposite pairs
        return False
    n, d = rows.shape
    n_positive = int(np.count_nonzero(y > 0))
    if _visits_pairs(loss):
        return n_positive * (n - n_positive) <= _CHEAP_PAIRS
    if isinstance(rows, CsrRows):
        return len(rows.data) <= _CHEAP_NUMBERS
    few = d >= _MANY_COLUMNS or n * d * min(d, _CHEAP_WIDTH) <= _CHEAP_PRODUCTS
    return few and n * d <= _CHEAP_NUMBERS


def _visits_pairs(loss: PairLoss) -> bool:
    """Whether the cost of a fit grows with the number of pairs, as without a curvature bound."""
    return not (loss.by_sorting and loss.curvature_bound(1.0) == loss.curvature_bound(100.0))


def solve_exactly(task: Task, solver: Exact, rows: Rows, y: Vector, weight: Vector) -> Fitted:
    """Return the minimiser; if the task is free, with a share of Fisher's discriminant."""
    task.objective.check_data(y)
    fitted = fit_exact(task, solver.given_ridge, rows, y, weight, None if task.free else 0.0)
    choice = fitted.choice
    top = "" if choice.top is None else f"{choice.top!r} of "
    chosen = f"exact solver, {top}{type(task.loss).__name__}, ridge {choice.ridge:g}"
    if choice.fisher:
        chosen += f", Fisher's discriminant by {choice.fisher:g}"
    task.tell(chosen, choice)
    return fitted


def fit_exact(
    task: Task,
    ridge: float | None,
    rows: Rows,
    y: Vector,
    weight: Vector,
    fisher: float | None = 0.0,
) -> Fitted:
    """Minimise the objective of the task plus ridge times the squared norm.

    The rows are scaled, `y` holds -1 and +1, both present, and the loss is smooth and convex.
    Without a `ridge`, folds choose it among the rivals of the objective. The ridge of an anchor is
    chosen either way. `fisher` is the share of Fisher's discriminant in the minimiser for all
    pairs, which is the model or its anchor; None lets folds choose it if a class is small.
    """
    ExactSolver(task.loss, 0.0 if ridge is None else ridge)  # it checks
    rows, effort = _ready(rows), _TEXT if _is_text(rows) else _NUMBERS
    start, top = None, task.objective.candidates[0]
    choice = Choice(ridge=ridge, top=None if top.over_pairs else top, fisher=fisher or 0.0)
    if ridge is None or not top.convex:
        choice, start = _choose(task, rows, y, weight, ridge, fisher, effort)
    assert choice.ridge is not None
    data = (rows, y, task.loss, weight if len(weight) else None)

    def with_share(w: Vector) -> Vector:
        return with_fisher(w, choice.fisher, as_dense(rows), y, data[3]) if choice.fisher else w

    anchor = None
    if choice.anchor_ridge is not None:
        anchor = with_share(_ALL.on(*data).minimise(choice.anchor_ridge, tolerance=effort.fine)[0])
    on_all = (choice.top or _ALL).on(*data, anchor)
    w, n_evaluations = on_all.minimise(choice.ridge, start, tolerance=effort.fine)
    n_positive = int(np.count_nonzero(y > 0))
    trace = Trace(n_evaluations, n_evaluations * n_positive * (len(y) - n_positive))
    return Fitted(with_share(w) if choice.top is None else w, "exact", task.loss, choice, trace)


@dataclass(frozen=True)
class _Fold:
    """What a model is trained on, and what judges it."""

    #: Rows, labels, loss and weights.
    train: tuple[Rows, Vector, PairLoss, Vector | None]
    held: Rows
    y: Vector
    weight: Vector

    def auc(self, w: Vector) -> float:
        return judged_auc(self.y, self.held.scores(w), self.weight)

    def worth(self, objective: Objective, w: Vector) -> float:
        # The same number as by the metric, but counted in whole numbers: that is quicker.
        if objective.over_pairs:
            return self.auc(w)
        weight = self.weight if len(self.weight) else None
        return objective.metric(self.y > 0, self.held.scores(w), sample_weight=weight)


def _choose(
    task: Task,
    rows: Rows,
    y: Vector,
    weight: Vector,
    ridge: float | None,
    fisher: float | None,
    effort: _Effort,
) -> tuple[Choice, Vector]:
    """Choose the ridge by the metric of the objective on held-out folds, with their weights.

    Returns the choice, and the mean of the models of the folds to start the final fit from. A
    given `ridge` is the only one that is tried for an objective with an anchor.
    """
    objective, d = task.objective, rows.shape[1]
    folds = _folds(task, rows, y, weight, effort)
    # No AUC is above 1; an objective of a user may have any metric.
    most = 1.0 if objective.over_pairs else math.inf
    mixtures: Sequence[float] = (fisher,) if fisher else ()
    if fisher is None and _suits_fisher(rows, y):
        mixtures = (0.0, *_FISHER_SHARES)

    def worth(w: Vector, k: int) -> float:
        return folds[k].worth(objective, w)

    anchors: list[Vector | None] = [None] * len(folds)
    begun = None
    with threads(task.n_jobs) as run:
        if not objective.convex:
            pairs = [_ALL.on(*one.train) for one in folds]
            begun = best_of(_path(pairs, _ridges(d), worth, effort, run, most))
            begun = _mixed(begun, mixtures, folds, n_errors=0.0)
            anchors[:] = begun.model
        found = []
        for top in objective.candidates:
            objectives = [top.on(*one.train, w) for one, w in zip(folds, anchors, strict=True)]
            ridges = _ridges(d, top.strongest_ridge) if ridge is None else [ridge]
            values = {"power": float(top.power)} if isinstance(top, Push) else {}
            if begun is not None:
                values["anchor_ridge"] = begun.evidence.values["ridge"]
            best = best_of(_path(objectives, ridges, worth, effort, run, most, values))
            if top.over_pairs and best.evidence.auc < most:
                best = _mixed(best, mixtures, folds, n_errors=1.0)
            found.append((best, top))
    best, top = max(found, key=lambda one: one[0].evidence.auc)
    choice = Choice(
        ridge=best.evidence.values["ridge"],
        evidence=best.evidence,
        tried=tuple(tried for one, _ in found for tried in one.tried),
        top=None if top.over_pairs else top,
        anchor_ridge=None if begun is None else begun.evidence.values["ridge"],
        fisher=(best if begun is None else begun).evidence.values.get("fisher", 0.0),
    )
    return choice, np.mean(best.model, axis=0)


def _folds(task: Task, rows: Rows, y: Vector, weight: Vector, effort: _Effort) -> list[_Fold]:
    """Divide the examples, of a large class only some."""
    keys, by_precision = task.keys, task.objective.title == "average precision"
    assert keys is not None
    cap = _PRECISION_CAP if by_precision else _CLASS_CAP
    cap = _ALL_PAIRS_CAP if _visits_pairs(task.loss) else cap
    members = members_of(y, (-1.0, 1.0))
    chosen = [keys.first(own, cap) for own in members]
    kept = np.concatenate(chosen)
    rows, keys, part = rows.take(kept), keys.take(kept), y[kept]
    weight = weight[kept] if len(weight) else weight
    if by_precision and len(kept) < len(y):
        # Precision depends on the share of positives: weights restore it.
        times = [len(own) / len(some) for own, some in zip(members, chosen, strict=True)]
        shares = np.repeat(times, [len(some) for some in chosen])
        weight = shares * weight if len(weight) else shares
    groups = members_of(part, (-1.0, 1.0))
    rarer = min(map(len, groups))
    dealt = stratified(
        groups,
        n_folds_of(task.validation_fraction, rarer),
        keys,
        n_held=2 if rarer >= effort.many else None,
        n_repeats=n_repeats_of(rarer),
    )

    def own(index: Any) -> Vector:
        return weight[index] if len(weight) else weight

    return [
        _Fold(
            (rows.take(train), part[train], task.loss, own(train) if len(weight) else None),
            rows.take(test),
            part[test],
            own(test),
        )
        for train, test in dealt
    ]


def _ridges(d: int, strongest: int = AllPairs.strongest_ridge) -> list[float]:
    """Return the ridges to try for rows of d columns, from strong to weak.

    >>> _ridges(20)[0], _ridges(20_000)[0]
    (100.0, 10000.0)
    """
    wide = math.floor(math.log10(max(d / _STANDARD_WIDTH, 1.0)))
    return [10.0**exponent for exponent in range(strongest + wide, _WEAKEST - 1, -1)]


def _path(
    objectives: Sequence[PairObjective],
    ridges: Sequence[float],
    measure: Callable[[Vector, int], float],
    effort: _Effort,
    run: Callable[..., Any],
    most: float,
    shared: dict[str, float] | None = None,
) -> Iterator[_Candidate]:
    """Yield each ridge with the models of the folds and their worth, until nothing is gained.

    Nothing is better than `most`. The values in `shared` are added to those of every candidate.
    """
    last: Sequence[Vector | None] = [None] * len(objectives)
    best, without_gain = -1.0, 0
    for ridge in ridges:

        def train(k: int, ridge: float = ridge, last: Sequence[Vector | None] = last) -> Vector:
            return objectives[k].minimise(ridge, last[k], tolerance=effort.rough)[0]

        last = models = list(run(train, range(len(objectives))))
        values = [measure(w, k) for k, w in enumerate(models)]
        yield {"ridge": ridge, **(shared or {})}, models, values
        worth = float(np.mean(values))
        without_gain = 0 if worth > best else without_gain + 1
        best = max(best, worth)
        if without_gain == effort.patience or worth >= most:
            return


def _suits_fisher(rows: Rows, y: Vector) -> bool:
    """Whether a class has few examples and the covariance matrix can be inverted."""
    n, d = rows.shape
    n_positive = int(np.count_nonzero(y > 0))
    return (
        isinstance(rows, DenseRows)
        and d <= n
        and 2 <= min(n_positive, n - n_positive) < (FISHER_BELOW)
    )


def _mixed(best: _Best, shares: Sequence[float], folds: Sequence[_Fold], n_errors: float) -> _Best:
    """Return the best mixture of the models of the folds with Fisher's discriminant, by AUC.

    A mixture must be better than the first of the shares by `n_errors` standard errors. Without
    shares the given `best` is returned.
    """
    if not shares:
        return best
    others = []
    for w, fold in zip(best.model, folds, strict=True):
        rows, y, _, weight = fold.train
        others.append(with_fisher(w, 1.0, as_dense(rows), y, weight))

    def mixtures() -> Iterator[_Candidate]:
        for share in shares:
            both = zip(best.model, others, strict=True)
            models = [(1.0 - share) * w + share * f for w, f in both]
            worth = [fold.auc(w) for fold, w in zip(folds, models, strict=True)]
            yield {**best.evidence.values, "fisher": share}, models, worth

    found = best_of(mixtures(), n_errors)
    return replace(found, tried=(*best.tried, *found.tried))


def _is_text(rows: Rows) -> bool:
    return isinstance(rows, CsrRows) and rows.shape[1] >= _MANY_COLUMNS


def _ready(rows: Rows) -> Rows:
    """Return rows for many products: dense rows in float64, narrow sparse rows as dense ones.

    Weak ridges need Newton's method, which takes dense rows.
    """
    n, d = rows.shape
    most = _MOST_FILLED * len(rows.data) + _FEW_NUMBERS if isinstance(rows, CsrRows) else 0
    if isinstance(rows, CsrRows) and (d > _NARROW or n * d > most):
        return rows
    return as_dense(rows)


def as_dense(rows: Rows) -> DenseRows:
    """Return rows as a dense matrix of float64."""
    X = rows.X if isinstance(rows, DenseRows) else rows.matrix.toarray()
    return DenseRows(X.astype(np.float64, copy=False))
