# SPDX-License-Identifier: BSD-3-Clause
"""Choice of the ridge on held-out folds, and the question whether an exact fit is cheap.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.estimators.shared.evidence import Best, Candidate, Choice, best_of, threads
from pairlearn.estimators.shared.weights import judged_auc
from pairlearn.folds import members_of, n_folds_of, n_repeats_of, stratified
from pairlearn.losses import PairLoss
from pairlearn.solvers.closed_form.fisher import FISHER_BELOW, with_fisher
from pairlearn.solvers.exact.batch import ExactSolver, PairObjective
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.solvers.top.objectives import AllPairs, Push
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.estimators.auc.task import Task

#: "auto" is exact up to this many products n d min(d, `_CHEAP_WIDTH`): no more than descent costs.
_CHEAP_PRODUCTS = 5e7
#: The number of columns from which on the estimate above grows with d, no longer with its square.
_CHEAP_WIDTH = 100
#: "auto" is exact for sparse or wide rows of at most this many stored numbers.
_CHEAP_NUMBERS = 4_000_000
#: "auto" is exact for a loss without sorted sums up to this many pairs: a fit visits all of them.
_CHEAP_PAIRS = 250_000
#: Rows of at least this many columns are wide. The AUC of sparse ones hardly changes with the
#: ridge, and a careful search would cost many times logistic regression.
_MANY_COLUMNS = 1_000
#: From this many examples of the rarer class on, two folds are enough, and descent is as good.
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


_NUMBERS = _Effort()
_TEXT = _Effort(many=100, patience=1, rough=1e-3, fine=1e-5)


def is_exact(loss: PairLoss) -> bool:
    """Whether the exact solver takes a loss: convex, smooth, of opposite pairs."""
    try:
        ExactSolver(loss)
    except ValueError:
        return False
    return True


def is_cheap(rows: Rows, y: Vector, loss: PairLoss) -> bool:
    """Whether the exact solution is worth its time: few examples, no more work than descent."""
    n, d = rows.shape
    n_positive = int(np.count_nonzero(y > 0))
    if _visits_pairs(loss):
        return n_positive * (n - n_positive) <= _CHEAP_PAIRS
    if isinstance(rows, CsrRows):
        return len(rows.data) <= _CHEAP_NUMBERS
    few = min(n_positive, n - n_positive) < _MANY
    wide = d >= _MANY_COLUMNS and n * d <= _CHEAP_NUMBERS
    return few and (wide or n * d * min(d, _CHEAP_WIDTH) <= _CHEAP_PRODUCTS)


def _visits_pairs(loss: PairLoss) -> bool:
    """Whether the cost of a fit grows with the number of pairs, as without a curvature bound."""
    return not (loss.by_sorting and loss.curvature_bound(1.0) == loss.curvature_bound(100.0))


def _ridges(d: int, strongest: int = AllPairs.strongest_ridge) -> list[float]:
    """Return the ridges to try for rows of d columns, from strong to weak.

    >>> _ridges(20)[0], _ridges(20_000)[0]
    (100.0, 10000.0)
    """
    wide = math.floor(math.log10(max(d / _STANDARD_WIDTH, 1.0)))
    return [10.0**exponent for exponent in range(strongest + wide, _WEAKEST - 1, -1)]


def choose_ridge(
    task: Task,
    rows: Rows,
    y: Vector,
    weight: Vector,
    ridge: float | None = None,
    fisher: float | None = 0.0,
) -> tuple[Choice, Vector]:
    """Choose the ridge by the metric of the objective on held-out folds, with their weights.

    Returns the choice, and the mean of the models of the folds to start the final fit from. The
    arguments are those of `fit_exact`. If there is an anchor, its ridge is chosen first; a given
    `ridge` is then the only one that is tried for the objective.
    """
    objective, loss, keys = task.objective, task.loss, task.keys
    assert keys is not None
    by_precision = objective.title == "average precision"
    cap = _PRECISION_CAP if by_precision else _CLASS_CAP
    if _visits_pairs(loss):
        cap = _ALL_PAIRS_CAP
    members = members_of(y, (-1.0, 1.0))
    kept = np.concatenate([keys.first(some, cap) for some in members])
    part, part_y = rows.take(kept), y[kept]
    # Precision depends on the share of positives: weights restore it.
    shares = None
    if by_precision and len(kept) < len(y):
        shares = np.concatenate([np.full(min(len(m), cap), len(m) / cap) for m in members])
        shares = np.maximum(shares, 1.0)
    part_weight = weight[kept] if len(weight) else None
    if shares is not None:
        part_weight = shares if part_weight is None else shares * part_weight
    effort = effort_for(rows)
    groups = members_of(part_y, (-1.0, 1.0))
    rarer = min(map(len, groups))
    folds = stratified(
        groups,
        n_folds_of(task.validation_fraction, rarer),
        keys.take(kept),
        n_held=2 if rarer >= effort.many else None,
        n_repeats=n_repeats_of(rarer),
    )
    trained = [
        (part.take(k), part_y[k], loss, None if part_weight is None else part_weight[k])
        for k, _ in folds
    ]
    held = [part.take(test) for _, test in folds]

    def by_auc(w: Vector, k: int) -> float:
        test = folds[k][1]
        given = weight[kept[test]] if len(weight) else weight
        return judged_auc(part_y[test], held[k].scores(w), given)

    def measure(w: Vector, k: int) -> float:
        # The same number as by the metric, but counted in whole numbers: that is quicker.
        if objective.over_pairs:
            return by_auc(w, k)
        test = folds[k][1]
        weights = None if part_weight is None else part_weight[test]
        return objective.metric(part_y[test] > 0, held[k].scores(w), sample_weight=weights)

    # No AUC is above 1; an objective of a user may have any metric.
    most = 1.0 if objective.over_pairs else math.inf
    d = rows.shape[1]
    mixtures: Sequence[float] = (fisher,) if fisher else ()
    if fisher is None and _suits_fisher(rows, y):
        mixtures = (0.0, *_FISHER_SHARES)
    anchors: list[Vector | None] = [None] * len(folds)
    begun = None
    with threads(task.n_jobs) as run:
        if not objective.convex:
            pairs = [_ALL.on(*one) for one in trained]
            begun = best_of(_path(pairs, _ridges(d), measure, effort, run, most))
            begun = _mixed(begun, mixtures, trained, by_auc, n_errors=0.0)
            anchors[:] = begun.model
        found = []
        for top in objective.candidates:
            objectives = [top.on(*one, w) for one, w in zip(trained, anchors, strict=True)]
            ridges = _ridges(d, top.strongest_ridge) if ridge is None else [ridge]
            values = {"power": float(top.power)} if isinstance(top, Push) else {}
            if begun is not None:
                values["anchor_ridge"] = begun.evidence.values["ridge"]
            best = best_of(_path(objectives, ridges, measure, effort, run, most, values))
            if top.over_pairs and best.evidence.auc < most:
                best = _mixed(best, mixtures, trained, by_auc, n_errors=1.0)
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


#: A candidate with the models of the folds.
_Candidate = Candidate[list[Vector]]
_Best = Best[list[Vector]]


def _suits_fisher(rows: Rows, y: Vector) -> bool:
    """Whether a class has few examples and the covariance matrix can be inverted."""
    n, d = rows.shape
    n_positive = int(np.count_nonzero(y > 0))
    rarer = min(n_positive, n - n_positive)
    return isinstance(rows, DenseRows) and d <= n and 2 <= rarer < FISHER_BELOW


def _mixed(
    best: _Best,
    shares: Sequence[float],
    trained: Sequence[tuple[Any, ...]],
    measure: Callable[[Vector, int], float],
    n_errors: float,
) -> _Best:
    """Return the best mixture of the models of the folds with Fisher's discriminant.

    A mixture must be better than the first of the shares by `n_errors` standard errors. Without
    shares the given `best` is returned.
    """
    if not shares:
        return best
    others = [
        with_fisher(w, 1.0, as_dense(rows), y, weight)
        for w, (rows, y, _, weight) in zip(best.model, trained, strict=True)
    ]

    def mixtures() -> Iterator[_Candidate]:
        for share in shares:
            models = [
                (1.0 - share) * w + share * f for w, f in zip(best.model, others, strict=True)
            ]
            worth = [measure(w, k) for k, w in enumerate(models)]
            yield {**best.evidence.values, "fisher": share}, models, worth

    found = best_of(mixtures(), n_errors)
    return replace(found, tried=(*best.tried, *found.tried))


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


def effort_for(rows: Rows) -> _Effort:
    """Return how carefully to search: less so for text, whose AUC hardly depends on the ridge."""
    return _TEXT if isinstance(rows, CsrRows) and rows.shape[1] >= _MANY_COLUMNS else _NUMBERS


def as_dense(rows: Rows) -> DenseRows:
    """Return rows as a dense matrix of float64."""
    if isinstance(rows, DenseRows):
        return DenseRows(rows.X.astype(np.float64, copy=False))
    dense = np.zeros(rows.shape)
    # Repeated entries of a row add up.
    of_row = np.repeat(np.arange(len(dense)), np.diff(rows.indptr))
    np.add.at(dense, (of_row, rows.indices), rows.data)
    return DenseRows(dense)
