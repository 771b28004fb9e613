# SPDX-License-Identifier: BSD-3-Clause
r"""Ordered grades: one score that puts examples of any two grades in order.

The score minimises the square loss over pairs of different grades, with the margin b - a for grades
number a < b, in closed form (see `class_moments`). Grades and their probabilities follow from the
score by the proportional odds model,

    P(grade number > k) = 1 / (1 + exp(-(slope score - cut_k))),    cut_0 < cut_1 < ...,

fitted by maximum likelihood on held-out scores. With t the slope times the score, grade number k
lies between the cuts c_{k-1} and c_k, and

.. math:: P(k) = \sigma(t - c_{k-1}) - \sigma(t - c_k)
               = \sigma(t - c_{k-1}) \, \sigma(c_k - t) \, (1 - e^{-(c_k - c_{k-1})}),

where the factors beyond the first and the last cut are 1. So minus the log likelihood is a sum of
convex terms: the logistic loss of each example against the cuts next to its grade, and

.. math:: -\sum_k m_k \log(1 - e^{-(c_k - c_{k-1})})

over the grades between two cuts, of share m_k, which keeps the cuts in order.

References
----------
P. McCullagh, Regression models for ordinal data, Journal of the Royal Statistical Society B 42,
1980.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.estimators.shared.class_moments import (
    ClassSystems,
    ClosedForm,
    class_folds,
)
from pairlearn.estimators.shared.evidence import Candidate, best_of
from pairlearn.estimators.shared.solvers import Exact
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import chunk_weights
from pairlearn.metrics.concordance import SURVIVAL, ConcordanceIndex
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord
from pairlearn.solvers.rows import as_rows
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_generator, check_weights

#: The logarithm of the slope, for scores of unit spread, lies between minus this and this.
_MOST_LOG_SLOPE = 14.0
#: The least share of a grade in the term that keeps its cuts apart: two cuts never meet.
_LEAST_SHARE = 1e-9
#: Steps end after one that promised to lower the objective by less than this.
_TOLERANCE = 1e-12
_MOST_STEPS = 500


def _has_two_grades(model: Any) -> bool:
    if len(getattr(model, "grades_", (0, 1))) == 2:
        return True
    raise AttributeError(
        f"decision_function is for two grades, and there are {len(model.grades_)}; score_samples "
        "returns their scores, predict_proba a column for each grade."
    )


class OrdinalAUCClassifier(ClosedForm, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear score for ordered grades that maximises the share of pairs in the right order.

    With two grades `score` is the AUC. For grades within queries, for other losses and for streams
    see `PairwiseRanker`.

    Parameters
    ----------
    grades : sequence or None, default=None
        The grades from the lowest to the highest; by default those of y in their natural order, or
        in that of an ordered categorical. The order of texts is not known and must be said.
    solver : "exact" or Exact, default="exact"
        `Exact` holds the ridge. ``Exact(ridge="auto")`` takes the best of 100, 10, ..., 1e-6 by the
        share of pairs in order over stratified folds.
    scaling : "auto" or None, default="auto"
        "auto" centres and scales features inside `fit`, as in `AUCClassifier`; coefficients are in
        the units of X.
    validation_fraction : float, default=0.2
        The share of a fold; 0.2 makes five.
    random_state : int, RandomState, Generator or None, default=None
        Deals the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_grades,)
        The grades, sorted as in all of scikit-learn, which relies on it.
    grades_ : ndarray of shape (n_grades,)
        The grades, from the lowest to the highest.
    coef_ : ndarray of shape (n_features,)
        Coefficients of the score.
    slope_ : float
        How fast the odds of a higher grade grow with the score.
    cuts_ : ndarray of shape (n_grades - 1,)
        Where the odds of more than each grade are even, times the slope.
    ridge_ : float
        The ridge used.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [2.5], [4.0], [5.0], [6.0]])
    >>> y = ["poor", "poor", "fair", "fair", "good", "good"]
    >>> clf = OrdinalAUCClassifier(grades=["poor", "fair", "good"], random_state=0).fit(X, y)
    >>> clf.score(X, y), clf.grades_.tolist(), clf.classes_.tolist()
    (1.0, ['poor', 'fair', 'good'], ['fair', 'good', 'poor'])
    """

    _arrays: ClassVar[dict[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "slope": ArraySpec((), low=0.0),
        "cuts": ArraySpec(("n_cuts",), order="rising"),
        "ridge": ArraySpec((), low=0.0),
    }

    classes_: NDArray[Any]
    grades_: NDArray[Any]
    coef_: Vector
    cuts_: Vector

    def __init__(
        self,
        *,
        grades: Any = None,
        solver: str | Exact = "exact",
        scaling: str | None = "auto",
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.grades, self.solver, self.scaling = grades, solver, scaling
        self.validation_fraction, self.random_state = validation_fraction, random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the score and the cuts between the grades.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades, at least two different ones.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; a pair weighs the product of both.

        Returns
        -------
        self
            The fitted classifier.
        """
        candidates = self._ridges()
        kind: Any = getattr(y, "dtype", None)
        model = copy.copy(self)  # A fit that fails leaves this model as it was.
        X, y = model._checked(X, y)
        labels = np.asarray(y)
        check_classification_targets(labels)
        classes = self._ordered(labels, kind.categories if getattr(kind, "ordered", False) else ())
        codes = _codes(classes, labels)
        counts = chunk_weights(sample_weight, len(labels))
        weight = counts if len(counts) else np.ones(len(labels))
        empty = np.bincount(codes, weight, minlength=len(classes)) == 0.0
        if empty.any():
            raise ValueError(
                f"the class {classes[empty].tolist()[0]!r} is without weight; give it examples "
                "that weigh more than zero, or leave it out of grades and y."
            )
        what = "grades are not put in order"
        given = as_rows(X, finite=True)
        found = self._compact(given, counts, what, cure="PairwiseRanker")
        rows = found.rows
        rng = check_generator(self.random_state)
        held = [
            (test, ClassSystems.of(rows.take(train), codes[train], len(classes), weight[train]))
            for train, test in class_folds(codes, weight, self.validation_fraction, rng)
        ]

        def solutions() -> Iterator[Candidate[list[Vector]]]:
            for ridge in candidates:
                scores = [
                    found.scores(test, moments.solve_order(ridge)[np.newaxis])[:, 0]
                    for test, moments in held
                ]
                worth = [
                    share_in_order(codes[test], one, weight[test])
                    for (test, _), one in zip(held, scores, strict=True)
                ]
                yield {"ridge": ridge}, scores, worth

        best = best_of(solutions())
        ridge = best.evidence.values["ridge"]
        w = ClassSystems.of(rows, codes, len(classes), weight).solve_order(ridge)
        coef, shift = found.to_user(w[np.newaxis])
        tests = np.concatenate([test for test, _ in held])
        slope, cuts = fit_cuts(np.concatenate(best.model), codes[tests], weight[tests])
        model.grades_, model.classes_, model.coef_ = classes, np.sort(classes), coef[0]
        model.slope_, model.cuts_ = slope, cuts + slope * float(shift[0])
        model.ridge_ = ridge
        self.__dict__ = model.__dict__
        return self

    def _ordered(self, labels: NDArray[Any], declared: Any) -> NDArray[Any]:
        """Return the grades from the lowest to the highest; y may have declared their order."""
        present = np.unique(labels)
        if len(present) < 2:
            raise ValueError(
                f"y must hold at least two grades, got 1 class ({present.tolist()[0]!r}); there is "
                "no pair to put in order."
            )
        if self.grades is None:
            if len(declared):
                return np.asarray(declared)[np.isin(declared, present)]
            if any(isinstance(one, str | bytes) for one in present.tolist()):
                raise ValueError(
                    f"y holds texts, {present.tolist()[:3]!r}, whose order is not known; pass "
                    "grades=[lowest, ..., highest]."
                )
            return present
        grades = np.asarray(self.grades)
        if grades.ndim != 1 or len(np.unique(grades)) != len(grades):
            raise ValueError(
                f"grades must be a list of different grades, from the lowest to the highest, got "
                f"{self.grades!r}."
            )
        unknown = set(present.tolist()) - set(grades.tolist())
        if unknown:
            raise ValueError(
                f"y holds {sorted(unknown)[0]!r}, which is not in grades={grades.tolist()!r}; add "
                "it at its place. Inside an estimator that numbers the labels for its members, "
                "give y as numbers in their order, without grades."
            )
        return grades

    @property
    def _direction(self) -> float:
        """-1 if there are two grades and the higher one is ``classes_[0]``, otherwise 1."""
        return -1.0 if len(self.grades_) == 2 and self.grades_[0] == self.classes_[1] else 1.0

    @property
    def _shift(self) -> float:
        """What is added to the scores: those of two grades are cut at 0."""
        return -float(self.cuts_[0] / self.slope_) if len(self.cuts_) == 1 else 0.0

    def line(self) -> tuple[Vector, float]:
        """Return the line of `decision_function`, or else of `score_samples`, for `explain`."""
        return self._direction * self.coef_, self._direction * self._shift

    @available_if(_has_two_grades)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Vector:
        """Return scores of two grades, positive where `predict` says ``classes_[1]``."""
        # scikit-learn takes three columns for three classes: more grades have `score_samples` only.
        scores = self.score_samples(X)
        return self._direction * scores

    def score_samples(self, X: Any) -> Vector:
        """Return scores, larger for higher grades; those of two grades are cut at 0."""
        return self._products(X) + self._shift

    def _of_grades(self, X: Any) -> Vector:
        """Return probabilities of ``grades_``."""
        scores = self.score_samples(X)
        cuts = self.cuts_ if len(self.cuts_) > 1 else np.zeros(1)
        with np.errstate(over="ignore"):
            t = self.slope_ * scores[:, None] - cuts
        above = 1.0 / (1.0 + np.exp(-np.clip(t, -700.0, 700.0)))
        ends = np.ones((len(scores), 1)), np.zeros((len(scores), 1))
        return np.asarray(-np.diff(np.hstack((ends[0], above, ends[1])), axis=1))

    def predict_proba(self, X: Any) -> Vector:
        """Return probabilities of ``classes_``, of shape (n_samples, n_grades)."""
        found = self._of_grades(X)
        return np.ascontiguousarray(found[:, np.argsort(self.grades_)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable grade of each row of `X`."""
        likeliest = self._of_grades(X).argmax(axis=1)
        return np.asarray(self.grades_[likeliest])

    def to_record(self, provenance: Mapping[str, Any] | None = None) -> ModelRecord:
        """Return the fitted model as the plain values that `save` writes; grades in their order."""
        return replace(super().to_record(provenance), classes=self.grades_.tolist())

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
        k = 0 if record.classes is None else len(record.classes)
        if k < 2 or len(self.cuts_) != k - 1:
            raise ModelFileError(f"its {k} grades do not have {len(self.cuts_)} cuts.")
        if self.slope_ == 0.0:
            raise ModelFileError("its score does not tell grades apart: the slope is 0.")
        self.grades_, self.classes_ = self.classes_, np.sort(self.classes_)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of pairs of different grades in order; a tie is half a pair."""
        scores, labels = self.score_samples(X), np.asarray(y)
        if labels.shape != scores.shape:
            raise ValueError(f"y must have the shape {scores.shape}, got {labels.shape}.")
        weight = np.ones(len(scores))
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(scores), name="sample_weight")
        return share_in_order(_codes(self.grades_, labels), scores, weight)


def _codes(classes: NDArray[Any], labels: NDArray[Any]) -> Places:
    place = {label: k for k, label in enumerate(classes.tolist())}
    try:
        return np.array([place[label] for label in labels.tolist()], dtype=np.intp)
    except KeyError as error:
        raise ValueError(
            f"y holds {error.args[0]!r}, which is none of the grades {classes.tolist()!r}."
        ) from None


def share_in_order(codes: Places, scores: Vector, weight: Vector) -> float:
    """Return the weighted share of pairs of different grades that scores put in order."""
    kept = weight > 0.0
    if len(np.unique(codes[kept])) < 2:
        raise ValueError("y holds one grade only; there is no pair to put in order.")
    # As if an example of a higher grade had its event earlier, and none were censored.
    times = np.empty(len(codes), dtype=SURVIVAL)
    times["event"], times["time"] = True, -codes
    return ConcordanceIndex()(times, scores, sample_weight=weight)


class _Shape(NamedTuple):
    """The objective at one point, its gradient, and the Hessian of minus the log likelihood.

    The Hessian is in parts: slope, slope and cuts, cuts (tridiagonal, as bands in upper form).
    """

    value: float
    by_slope: float
    by_cuts: Vector
    slopes: float
    border: Vector
    bands: Vector


class _Likelihood:
    """Minus the mean log likelihood of standardised scores, plus log(slope)^2 / (2 n)."""

    def __init__(self, s: Vector, codes: Places, share: Vector, n_grades: int) -> None:
        # Each example is compared with the cut below its grade, and with the cut above.
        above, below = np.flatnonzero(codes > 0), np.flatnonzero(codes < n_grades - 1)
        rows = np.concatenate((above, below))
        self._s, self._share = s[rows], share[rows]
        self._cut = np.concatenate((codes[above] - 1, codes[below]))
        self._side = np.repeat([1.0, -1.0], [len(above), len(below)])
        inner = np.bincount(codes, share, minlength=n_grades)[1:-1]
        self._inner = np.maximum(inner, _LEAST_SHARE)
        self._n, self._n_cuts = len(s), n_grades - 1

    def at(self, slope: float, cuts: Vector) -> _Shape:
        """Return value and derivatives."""
        t = self._side * (slope * self._s - cuts[self._cut])
        # exp(-|t|) neither overflows nor loses digits.
        small = np.exp(-np.abs(t))
        loss = np.log1p(small) + np.maximum(-t, 0.0)
        pull = self._share * self._side * np.where(t > 0.0, small, 1.0) / (1.0 + small)
        curve = self._share * small / (1.0 + small) ** 2

        gaps = np.diff(cuts)
        # Cuts that rounding has made one have no finite value, and such a step is not taken.
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = -np.expm1(-gaps)
            push = self._inner * np.exp(-gaps) / apart
            bend = push / apart
            closeness = -float(self._inner @ np.log(apart))

        by_cuts = self._sums(pull)
        by_cuts[:-1] += push
        by_cuts[1:] -= push
        bands = np.zeros((2, self._n_cuts))
        bands[0, 1:] = -bend
        # Far from all examples the curvature underflows.
        bands[1] = self._sums(curve) + 1e-15
        bands[1, :-1] += bend
        bands[1, 1:] += bend
        # Cuts that almost meet bend so much that rounding would hide the rest.
        bands[1] *= 1.0 + 1e-14

        # As strong as one example that every grade might have had.
        log_slope = float(np.log(slope))
        return _Shape(
            float(self._share @ loss) + closeness + 0.5 * log_slope**2 / self._n,
            log_slope / (slope * self._n) - float(pull @ self._s),
            by_cuts,
            float(curve @ self._s**2),
            -self._sums(curve * self._s),
            bands,
        )

    def _sums(self, values: Vector) -> Vector:
        """Return the sum of the values at each cut."""
        return np.bincount(self._cut, values, minlength=self._n_cuts).astype(np.float64)

    def step(self, slope: float, at: _Shape) -> tuple[float, Vector]:
        """Return the step of Newton's method for slope and cuts.

        The cuts are eliminated first: of ``[[h, v'], [v, T]]`` with T tridiagonal, the slope has
        the curvature ``h - v' inv(T) v``, plus that of its penalty.
        """
        from scipy.linalg import solveh_banded

        right = np.column_stack((-at.by_cuts, at.border))
        # A single cut has no second band.
        free, tied = solveh_banded(at.bands[-self._n_cuts :], right, check_finite=False).T
        curvature = max(at.slopes - float(at.border @ tied), 0.0)
        unit = 1.0 / (self._n * slope**2)
        whole = curvature + (1.0 - np.log(slope)) * unit
        if whole < 0.1 * unit:
            # The penalty is concave for large slopes; this curvature is that by log(slope).
            whole = curvature + unit
        wanted = (-at.by_slope - float(at.border @ free)) / whole
        # A slope that shrinks stays positive. The cuts below are the best ones for this slope.
        low = max(float(np.exp(-_MOST_LOG_SLOPE)), 0.1 * slope)
        change = float(np.clip(slope + wanted, low, np.exp(_MOST_LOG_SLOPE))) - slope
        return change, free - change * tied


def fit_cuts(scores: Vector, codes: Places, weight: Vector) -> tuple[float, Vector]:
    r"""Return slope and rising cuts of the proportional odds model, by maximum likelihood.

    For scores of unit spread they minimise

    .. math:: -\frac{1}{\sum_i w_i} \sum_i w_i \log P(k_i) + \frac{1}{2n} \log^2(\text{slope}).

    The penalty and the bounds exp(-14) and exp(14) keep the slope positive and finite where the
    scores separate the grades or order them the wrong way. `codes` are the numbers of the grades,
    0, 1, ..., all of them present.
    """
    # Scores near the largest or the smallest number have no variance, such weights no sum.
    peak = float(np.abs(scores).max())
    peak = 1.0 if peak == 0.0 or 1e-100 < peak < 1e100 else peak
    s = scores / peak
    centre, spread = float(s.mean()), float(s.std())
    unit = spread if spread > 0.0 else 1.0
    n_grades = int(codes.max()) + 1
    share = weight / weight.max()
    share /= share.sum()
    smoothed = np.bincount(codes, share, minlength=n_grades) * len(s) + 1.0
    below = np.cumsum(smoothed)[:-1] / smoothed.sum()
    slope, cuts = 1.0, np.log(below) - np.log1p(-below)

    likelihood = _Likelihood((s - centre) / unit, codes, share, n_grades)
    here = likelihood.at(slope, cuts)
    for _ in range(_MOST_STEPS):
        by_slope, by_cuts = likelihood.step(slope, here)
        gain = -(here.by_slope * by_slope + float(here.by_cuts @ by_cuts))
        # The cuts stay in order: no gap loses more than 99 percent.
        lost = float(np.max(-np.diff(by_cuts) / np.diff(cuts), initial=0.0))
        length, noise = 0.99 / max(lost, 0.99), 1e-15 * max(here.value, 1.0)
        while length > 1e-10:
            there = slope + length * by_slope, cuts + length * by_cuts
            found = likelihood.at(*there)
            if found.value <= here.value - 1e-4 * length * gain + noise:
                (slope, cuts), here = there, found
                break
            length *= 0.5
        else:
            # Rounding hides what is left to gain.
            break
        if gain < _TOLERANCE:
            break
    slope /= unit
    real = np.finfo(np.float64)
    # Scores near the smallest number would have an infinite slope.
    return float(np.clip(slope / peak, real.tiny, real.max)), cuts + slope * centre


register_storable(OrdinalAUCClassifier)
