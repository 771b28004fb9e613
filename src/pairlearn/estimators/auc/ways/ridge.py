# SPDX-License-Identifier: BSD-3-Clause
"""Exact training for data in memory: the minimiser of an objective, its ridge by held-out metric.

Ridges from strong to weak are tried on stratified folds, three times over if the rarer class is
small: the choice on a handful of positives is noise, and repetition is the only cure. A fold starts
from its own last model, never from one that has seen its held-out part. Two ridges without gain end
the search. At most 2,000 examples of each class take part (10,000 where precision is measured); the
model is trained on all. Where an objective has rivals, each goes through the ridges, and the best
of all wins. A non-convex objective is pulled towards the minimiser for all pairs (its anchor),
whose ridge is chosen first.

Where a class has few examples, shares of Fisher's discriminant are tried as well, on the same
folds: the spread of a handful of positives, which a pair loss learns, is noise, and the
discriminant takes that of all examples. A share is taken if its AUC on the folds is better by a
standard error. Over 29 tasks with up to 300 positives (12 splits each, not those of the league)
that gained .0023 of AUC on average, .0040 with fewer than 60 positives, and lost .003 at worst;
any fixed share lost .02 or more somewhere, and the best share without a margin gained .0004 more
there and lost as much on easier sets (digits, breast cancer and wine of scikit-learn). The share of
an anchor, which only pulls, is the best by AUC, which is less noisy than the metrics of the top.
Mapped features gained nothing by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.estimators.shared.evidence import Best, Candidate, Choice, best_of
from pairlearn.estimators.shared.threads import threads
from pairlearn.folds import members_of, n_folds_of, stratified
from pairlearn.losses import PairLoss
from pairlearn.metrics import AveragePrecision, roc_auc
from pairlearn.solvers.closed_form.fisher import with_fisher
from pairlearn.solvers.exact.batch import ExactSolver, PairObjective
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.objectives import AllPairs, Objective, Push
from pairlearn.typing import Vector

__all__ = ["ExactFit", "choose_ridge", "fit_exact", "is_cheap", "is_exact"]

#: The exact solver is taken for a loss by sorting if the rarer class is small (`_MANY`) and
#: n d min(d, 100) is at most this, or a sparse or wide matrix (`_MANY_COLUMNS`) has at most so many
#: numbers; for a loss that visits all pairs, up to so many of them.
_CHEAP_PRODUCTS, _CHEAP_WIDTH, _CHEAP_NUMBERS, _CHEAP_PAIRS = 5e7, 100, 4_000_000, 250_000
#: Ridges for rows of mean variance 1 are powers of ten, from 100 down to so many. Rows of very many
#: columns, whose pairs are far apart, begin with stronger ones.
_WEAKEST, _WIDE = -6, 100
#: Narrow sparse rows are made dense if that takes at most so many times the numbers, or few.
_FILLED, _FEW_NUMBERS = 10, 100_000
#: At most so many examples of each class choose the ridge; for a loss that visits all pairs, fewer.
_CAP, _ALL_PAIRS_CAP = 2_000, 500
#: So many where precision is what counts: of the negatives, few are at the top of the list.
_PRECISION_CAP = 10_000
#: With fewer examples of the rarer class the folds are dealt three times.
_FEW, _REPEATS = 60, 3
#: With so many of the rarer class two of the folds are enough, and descent is as good.
_MANY = 1_000
#: With fewer of the rarer class shares of Fisher's discriminant are tried.
_FISHER_BELOW, _FISHER_SHARES = 300, (0.25, 0.5, 0.75, 1.0)
#: Ridges without gain that end the search.
_PATIENCE = 2
_ALL = AllPairs()
#: The precision of the models that are only compared, and of the model.
_ROUGH, _FINE = 1e-4, 1e-6


@dataclass(frozen=True)
class _Effort:
    """How carefully a ridge is searched for."""

    many: int = _MANY
    patience: int = _PATIENCE
    rough: float = _ROUGH
    fine: float = _FINE


#: Rows of so many columns are wide. The AUC of sparse ones hardly changes with the ridge, and a
#: search as careful as for other rows would cost many times logistic regression.
_MANY_COLUMNS = 1_000
_NUMBERS, _TEXT = _Effort(), _Effort(many=100, patience=1, rough=1e-3, fine=1e-5)


@dataclass(frozen=True)
class ExactFit:
    """A trained model, what chose its ridge, and the trace."""

    w: Vector
    choice: Choice
    trace: Trace


def is_exact(loss: PairLoss) -> bool:
    """Whether the exact solver takes a loss: convex, smooth, of opposite pairs.

    Examples
    --------
    >>> from pairlearn import Hinge, SquaredHinge
    >>> is_exact(Hinge()), is_exact(SquaredHinge())
    (False, True)
    """
    try:
        ExactSolver(loss)
    except ValueError:
        return False
    return True


def is_cheap(rows: Rows, y: Vector, loss: PairLoss) -> bool:
    """Whether the exact solution is worth having: few examples, and no more work than descent.

    On data sets with a rarer class of 300 to 1,000 examples it was ahead of stochastic gradient
    descent by up to .003 of AUC, from 1,500 on behind by up to .0015. Of wide rows (60 x 20,000 to
    1,000 x 4,000, simulated) it takes a fifth to a thirtieth of the time, at the same AUC.
    """
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
    """Whether a fit costs as much as the pairs are many; so does a curvature without a bound."""
    return not (loss.by_sorting and loss.curvature_bound(1.0) == loss.curvature_bound(100.0))


def fit_exact(
    rows: Rows,
    y: Vector,
    *,
    loss: PairLoss,
    ridge: float | None,
    weight: Vector,
    validation_fraction: float,
    n_jobs: int | None,
    rng: np.random.Generator,
    objective: Objective,
    fisher: float | None = 0.0,
) -> ExactFit:
    """Minimise the objective plus ridge times the squared norm.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        Training examples, scaled.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    loss : PairLoss
        A smooth convex loss.
    ridge : float, optional
        The ridge; by default the best of a grid by the metric of the objective on held-out
        training data. Of equals, the largest. Rivals of the objective are tried with it, but not
        if it is given. The ridge of an anchor is chosen either way.
    weight : ndarray of shape (n,) or (0,)
        Weights of the examples; held-out pairs all count the same.
    validation_fraction : float
        The share of a fold; 0.2 makes five.
    n_jobs : int, optional
        Threads for the folds.
    rng : numpy.random.Generator
        Deals the folds.
    objective : Objective
        What is minimised and measured: the mean over all pairs and the AUC, or another.
    fisher : float or None, default 0
        The share of Fisher's discriminant in the minimiser for all pairs, be it the model or its
        anchor; None for the best on held-out training data, where a class has few examples.

    Returns
    -------
    ExactFit
        The model trained on all examples.
    """
    ExactSolver(loss, 0.0 if ridge is None else ridge)
    if len(weight) and not weight.all():
        # An example of weight zero is as good as absent; a fold of such would have no pair.
        kept = np.flatnonzero(weight)
        rows, y, weight = rows.take(kept), y[kept], weight[kept]
    rows = _ready(rows)
    start = None
    top = objective.candidates[0]
    choice = Choice(ridge=ridge, top=None if top.over_pairs else top, fisher=fisher or 0.0)
    if ridge is None or not top.convex:
        choice, start = choose_ridge(
            rows, y, loss, weight, validation_fraction, n_jobs, rng, objective, ridge, fisher
        )
    assert choice.ridge is not None
    weights, fine = weight if len(weight) else None, _effort(rows).fine
    data = (rows, y, loss, weights)

    def with_share(w: Vector) -> Vector:
        return with_fisher(w, choice.fisher, _dense(rows), y, weights) if choice.fisher else w

    anchor = None
    if choice.anchor_ridge is not None:
        anchor = with_share(_ALL.on(*data).minimise(choice.anchor_ridge, tolerance=fine)[0])
    on_all = (choice.top or _ALL).on(*data, anchor)
    w, n_evaluations = on_all.minimise(choice.ridge, start, tolerance=fine)
    if choice.top is None:
        w = with_share(w)
    n_positive = int(np.count_nonzero(y > 0))
    n_pairs = n_positive * (len(y) - n_positive)
    return ExactFit(w, choice, Trace(n_evaluations, n_evaluations * n_pairs))


def _ridges(d: int, strongest: int = AllPairs.strongest_ridge) -> list[float]:
    """Return the ridges to try for rows of d columns, from strong to weak.

    >>> _ridges(20)[0], _ridges(20_000)[0]
    (100.0, 10000.0)
    """
    wide = math.floor(math.log10(max(d / _WIDE, 1.0)))
    return [10.0**exponent for exponent in range(strongest + wide, _WEAKEST - 1, -1)]


def choose_ridge(
    rows: Rows,
    y: Vector,
    loss: PairLoss,
    weight: Vector,
    validation_fraction: float,
    n_jobs: int | None,
    rng: np.random.Generator,
    objective: Objective,
    ridge: float | None = None,
    fisher: float | None = 0.0,
) -> tuple[Choice, Vector]:
    """Return the ridge with the best held-out metric, and a model to start from.

    The arguments are those of `fit_exact`. With an anchor, its ridge is chosen first, and a given
    ridge is then the only one that is tried.
    """
    by_precision = isinstance(objective.metric, AveragePrecision)
    cap = _PRECISION_CAP if by_precision else _CAP
    if _visits_pairs(loss):
        cap = _ALL_PAIRS_CAP
    members = members_of(y, (-1.0, 1.0))
    kept = np.concatenate([rng.permutation(some)[:cap] for some in members])
    part, part_y = rows.take(kept), y[kept]
    # The share of positives, which precision depends on, stays what it is.
    shares = None
    if by_precision and len(kept) < len(y):
        shares = np.concatenate([np.full(min(len(m), cap), len(m) / cap) for m in members])
        shares = np.maximum(shares, 1.0)
    part_weight = weight[kept] if len(weight) else None
    if shares is not None:
        part_weight = shares if part_weight is None else shares * part_weight
    effort = _effort(rows)
    # Few examples are dealt anew several times; of many, two folds are enough.
    groups = members_of(part_y, (-1.0, 1.0))
    rarer = min(map(len, groups))
    folds = stratified(
        groups,
        n_folds_of(validation_fraction, rarer),
        rng,
        n_held=2 if rarer >= effort.many else None,
        n_repeats=_REPEATS if rarer < _FEW else 1,
    )
    trained = [
        (part.take(k), part_y[k], loss, None if part_weight is None else part_weight[k])
        for k, _ in folds
    ]
    held = [part.take(test) for _, test in folds]

    def by_auc(w: Vector, k: int) -> float:
        return roc_auc(part_y[folds[k][1]], held[k].scores(w))

    def measure(w: Vector, k: int) -> float:
        # Of two equal numbers the quicker: this one is counted in whole numbers.
        if objective.over_pairs:
            return by_auc(w, k)
        test = folds[k][1]
        weights = None if shares is None else shares[test]
        return objective.metric(part_y[test] > 0, held[k].scores(w), sample_weight=weights)

    d = rows.shape[1]
    mixtures: Sequence[float] = (fisher,) if fisher else ()
    if fisher is None and _suits_fisher(rows, y):
        mixtures = (0.0, *_FISHER_SHARES)
    anchors: list[Vector | None] = [None] * len(folds)
    begun = None
    with threads(n_jobs) as run:
        if not objective.convex:
            pairs = [_ALL.on(*one) for one in trained]
            begun = best_of(_path(pairs, _ridges(d), measure, effort, run))
            begun = _mixed(begun, mixtures, trained, by_auc, n_errors=0.0)
            anchors[:] = begun.model
        found = []
        for top in objective.candidates:
            objectives = [top.on(*one, w) for one, w in zip(trained, anchors, strict=True)]
            ridges = _ridges(d, top.strongest_ridge) if ridge is None else [ridge]
            values = {"power": float(top.power)} if isinstance(top, Push) else {}
            if begun is not None:
                values["anchor_ridge"] = begun.evidence.values["ridge"]
            best = best_of(_path(objectives, ridges, measure, effort, run, values))
            if top.over_pairs:
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
    """Whether a class has few examples, of a covariance that is worth its inverse."""
    n, d = rows.shape
    n_positive = int(np.count_nonzero(y > 0))
    rarer = min(n_positive, n - n_positive)
    return isinstance(rows, DenseRows) and d <= n and 2 <= rarer < _FISHER_BELOW


def _mixed(
    best: _Best,
    shares: Sequence[float],
    trained: Sequence[tuple[Any, ...]],
    measure: Callable[[Vector, int], float],
    n_errors: float,
) -> _Best:
    """Return the best of the mixtures of models and Fisher's discriminant, by that many errors."""
    if not shares:
        return best
    others = [
        with_fisher(w, 1.0, _dense(rows), y, weight)
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
    shared: dict[str, float] | None = None,
) -> Iterator[_Candidate]:
    """Yield ridges with the models of the folds and their worth, until nothing more is gained.

    What all on the path have in common is `shared`.
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
        if without_gain == effort.patience:
            return


def _effort(rows: Rows) -> _Effort:
    return _TEXT if isinstance(rows, CsrRows) and rows.shape[1] >= _MANY_COLUMNS else _NUMBERS


def _ready(rows: Rows) -> Rows:
    """Return rows to be multiplied many times: dense ones in float64, narrow sparse ones as dense.

    Newton's method is for dense rows, and weak ridges need it. What is narrow and not very sparse
    takes at most ten times the memory.
    """
    n, d = rows.shape
    if isinstance(rows, CsrRows) and (d > _WIDE or n * d > _FILLED * len(rows.data) + _FEW_NUMBERS):
        return rows
    return _dense(rows)


def _dense(rows: Rows) -> DenseRows:
    if isinstance(rows, DenseRows):
        return DenseRows(rows.X.astype(np.float64, copy=False))
    dense = np.zeros(rows.shape)
    # Repeated entries of a row add up.
    of_row = np.repeat(np.arange(len(dense)), np.diff(rows.indptr))
    np.add.at(dense, (of_row, rows.indices), rows.data)
    return DenseRows(dense)
