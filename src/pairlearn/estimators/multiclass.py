# SPDX-License-Identifier: BSD-3-Clause
r"""Many classes: one score for each pair of classes, all in closed form from the same moments.

For classes a and b with means m_a, m_b and covariances C_a, C_b, the mean of (1 - <w, x_b - x_a>)^2
over pairs plus ridge ||w||^2 has the minimiser

    w_ab = (C_a + C_b + d d' + ridge I)^(-1) d,    d = m_b - m_a,

so the moments of the classes, found in one pass, give every pair and every ridge. One ridge for all
pairs is chosen by Hand and Till's M on held-out folds.

For probabilities each pair has a sigmoid, fitted on held-out scores, and the pairs are coupled by
Wu, Lin and Weng's second method: p minimises the sum over a != b of (r_ba p_a - r_ab p_b)^2, r_ab
being the probability of a against b.

References
----------
D. Hand and R. Till, A simple generalisation of the area under the ROC curve for multiple class
classification problems, Machine Learning 45, 2001.
T.-F. Wu, C.-J. Lin and R. Weng, Probability estimates for multi-class classification by pairwise
coupling, JMLR 5, 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.by_name import is_scaled
from pairlearn.estimators.calibration import Sigmoid, fit_sigmoid
from pairlearn.estimators.examples import product, validate_data
from pairlearn.estimators.scaling import scaled_rows
from pairlearn.estimators.storage import Storable, register_storable
from pairlearn.estimators.weights import chunk_weights
from pairlearn.metrics import HandTill
from pairlearn.models.registry import ArraySpec
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, as_rows
from pairlearn.validation import check_fraction, check_generator, check_weights

__all__ = ["MulticlassAUCClassifier", "couple"]

Vector = NDArray[np.float64]

#: Ridges to choose from, for rows of mean variance 1.
_RIDGES = tuple(10.0**exponent for exponent in range(2, -7, -1))
#: A class has a covariance matrix, and a pair is a system of so many equations.
_MOST_FEATURES = 5_000
#: Examples whose classes are coupled at once.
_BLOCK = 4_096


@dataclass(frozen=True)
class _Moments:
    """Means and covariances of the classes."""

    means: Vector
    covariances: Vector

    @classmethod
    def of(cls, rows: Rows, codes: NDArray[np.intp], n_classes: int, weight: Vector) -> _Moments:
        d = rows.shape[1]
        means, covariances = np.empty((n_classes, d)), np.empty((n_classes, d, d))
        for k in range(n_classes):
            index = np.flatnonzero((codes == k) & (weight > 0.0))
            share = weight[index] / weight[index].sum()
            X = _matrix(rows.take(index))
            means[k] = share @ X
            if isinstance(rows, CsrRows):
                second = np.asarray((X.multiply(share[:, None]).T @ X).todense())
                covariances[k] = second - np.outer(means[k], means[k])
            else:
                centred = X - means[k]
                covariances[k] = (centred * share[:, None]).T @ centred
        return cls(means, covariances)

    def solve(self, ridge: float) -> Vector:
        """Return the coefficients of all pairs, of shape (n_pairs, n_features)."""
        from scipy import linalg

        found = []
        for first, second in combinations(range(len(self.means)), 2):
            step = self.means[second] - self.means[first]
            matrix = self.covariances[first] + self.covariances[second] + np.outer(step, step)
            # A direction without variance has no difference either; it only must not blow up.
            matrix.flat[:: len(step) + 1] += ridge + 1e-12 * max(float(np.trace(matrix)), 1e-300)
            found.append(linalg.solve(matrix, step, assume_a="pos", check_finite=False))
        return np.array(found)


class MulticlassAUCClassifier(Storable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear scores for each pair of classes that maximise Hand and Till's M.

    Each pair of classes has a score of its own, the minimiser of the square loss over pairs of
    their examples. `score` is M, the mean over pairs of classes of the AUC of that score.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        The weight of the squared norm, for features of mean variance 1. "auto" takes the best of
        100, 10, ..., 1e-6 for all pairs by M over stratified folds.
    scaling : "auto" or None, default="auto"
        "auto" centres and scales features inside `fit`, as in `AUCClassifier`; coefficients are in
        the units of X.
    validation_fraction : float, default=0.2
        The share of a fold; 0.2 makes five.
    random_state : int, RandomState, Generator or None, default=None
        Deals the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_pairs, n_features)
        The coefficients of the pairs: first with second class, first with third, ...
    sigmoids_ : ndarray of shape (n_pairs, 2)
        Slope and intercept of the probability of the later class of each pair.
    ridge_ : float
        The ridge used.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pairlearn import MulticlassAUCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MulticlassAUCClassifier(random_state=0).fit(X, y)
    >>> clf.coef_.shape, bool(clf.score(X, y) > 0.99)
    ((3, 4), True)
    """

    _not_stored = ("random_state",)
    _arrays: ClassVar[dict[str, ArraySpec]] = {
        "coef": ArraySpec(("n_pairs", "n_features")),
        "sigmoids": ArraySpec(("n_pairs", 2)),
        "ridge": ArraySpec(()),
    }

    classes_: NDArray[Any]
    coef_: Vector
    sigmoids_: Vector

    def __init__(
        self,
        *,
        ridge: float | str = "auto",
        scaling: str | None = "auto",
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.ridge = ridge
        self.scaling = scaling
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the scores of all pairs of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the examples, positive for some of every class.

        Returns
        -------
        self
            The fitted classifier.
        """
        is_scaled(self.scaling)
        check_fraction("validation_fraction", self.validation_fraction)
        if self.ridge != "auto" and not float(self.ridge) >= 0.0:
            raise ValueError(f'ridge must be at least 0 or "auto", got {self.ridge!r}.')
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
            ensure_min_samples=2,
        )  # fmt: skip
        labels = np.asarray(y)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least two classes, got 1 class ({classes.tolist()[0]!r}); there "
                "is no pair to tell apart."
            )
        weight = np.ones(len(labels))
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(labels), name="sample_weight")
        empty = np.bincount(codes, weight) == 0.0
        if empty.any():
            raise ValueError(
                f"sample_weight is zero for every example of class {classes[empty].tolist()[0]!r}; "
                "leave the class out of y, or give it weight."
            )
        given = as_rows(X, finite=True)
        if given.shape[1] > _MOST_FEATURES:
            raise ValueError(
                f"X has {given.shape[1]} features, more than {_MOST_FEATURES}, for which pairs of "
                "classes are not solved in closed form; use OneVsOneClassifier(AUCClassifier())."
            )
        counts = chunk_weights(sample_weight, len(labels))
        scaling, rows = scaled_rows(self.scaling, given, counts)
        rows = _float64(rows)
        rng = check_generator(self.random_state)
        folds = self._folds(codes, weight, rng)
        candidates = _RIDGES if self.ridge == "auto" else (float(self.ridge),)
        held = [
            (test, _Moments.of(rows.take(train), codes[train], len(classes), weight[train]))
            for train, test in folds
        ]
        best = -1.0
        for ridge in candidates:
            scores = [_scores(rows.take(test), moments.solve(ridge)) for test, moments in held]
            value = self._value(codes, weight, [test for test, _ in held], scores, len(classes))
            # Of equals the strongest.
            if value > best:
                best, self.ridge_, out_of_fold = value, ridge, scores
        tests = np.concatenate([test for test, _ in held])
        coef = _Moments.of(rows, codes, len(classes), weight).solve(self.ridge_)
        shift = np.zeros(len(coef))
        if scaling is not None:
            user = np.array([scaling.to_user(w) for w in coef])
            # Scores of scaled rows differ from those of the user's by a constant of each pair.
            probe = given.take(np.arange(1))
            shift = _scores(_float64(probe), user)[0] - _scores(rows.take(np.arange(1)), coef)[0]
            coef = user
        sigmoids = self._sigmoids(codes[tests], weight[tests], np.concatenate(out_of_fold))
        sigmoids[:, 1] -= sigmoids[:, 0] * shift
        self.classes_, self.coef_, self.sigmoids_ = classes, coef, sigmoids
        return self

    def _folds(
        self, codes: NDArray[np.intp], weight: Vector, rng: np.random.Generator
    ) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return (train, held-out) rows of stratified folds, both with weight in every class."""
        members = [np.flatnonzero((codes == k) & (weight > 0.0)) for k in range(codes.max() + 1)]
        n_folds = min(max(round(1.0 / self.validation_fraction), 2), min(map(len, members)))
        if n_folds < 2:
            # A class of one example cannot be divided: it is both trained on and scored.
            everything = np.concatenate(members)
            return [(everything, everything)]
        fold = np.full(len(codes), -1)
        for places in members:
            fold[rng.permutation(places)] = np.arange(len(places)) % n_folds
        return [
            (np.flatnonzero((fold >= 0) & (fold != k)), np.flatnonzero(fold == k))
            for k in range(n_folds)
        ]

    @staticmethod
    def _value(
        codes: NDArray[np.intp],
        weight: Vector,
        tests: list[NDArray[np.intp]],
        scores: list[Vector],
        n_classes: int,
    ) -> float:
        """Return the mean M over the folds."""
        metric = HandTill(pairs=True, classes=tuple(range(n_classes)))
        return float(
            np.mean(
                [
                    metric(codes[test], one, sample_weight=weight[test])
                    for test, one in zip(tests, scores, strict=True)
                ]
            )
        )

    @staticmethod
    def _sigmoids(codes: NDArray[np.intp], weight: Vector, scores: Vector) -> Vector:
        """Return slope and intercept of each pair, from held-out scores."""
        found = []
        for column, (first, second) in enumerate(combinations(range(codes.max() + 1), 2)):
            index = np.flatnonzero((codes == first) | (codes == second))
            sigmoid = fit_sigmoid(scores[index, column], codes[index] == second, weight[index])
            found.append((sigmoid.slope, sigmoid.intercept))
        return np.array(found)

    def pair_scores(self, X: Any) -> Vector:
        """Return the scores of the pairs of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples, n_pairs)
            Scores, larger for the later class of the pair; `HandTill(pairs=True)` measures them.
        """
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return product(X, self.coef_.T)

    def predict_proba(self, X: Any) -> Vector:
        """Return probabilities of ``classes_``, coupled from those of the pairs.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Positive numbers that add up to 1 in each row.
        """
        scores = self.pair_scores(X)
        pairs = np.column_stack(
            [
                Sigmoid(slope, intercept)(scores[:, column])
                for column, (slope, intercept) in enumerate(self.sigmoids_.tolist())
            ]
        )
        return couple(pairs, len(self.classes_))

    def decision_function(self, X: Any) -> Vector:
        """Return the logarithm of the probabilities; for two classes, of their ratio."""
        logs = np.log(self.predict_proba(X))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row of `X`."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[likeliest])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return Hand and Till's M of the pairs' scores (not the accuracy).

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels among ``classes_``; a class that is missing is left out.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the examples.

        Returns
        -------
        float
            The mean AUC over pairs of classes.
        """
        check_is_fitted(self, "coef_")
        metric = HandTill(pairs=True, classes=tuple(self.classes_.tolist()))
        return metric(y, self.pair_scores(X), sample_weight=sample_weight)


def couple(pairs: Vector, n_classes: int) -> Vector:
    """Return class probabilities from those of pairs (Wu, Lin and Weng's second method).

    Parameters
    ----------
    pairs : ndarray of shape (n, n_pairs)
        The probability of the later class of each pair.
    n_classes : int
        The number of classes.

    Returns
    -------
    ndarray of shape (n, n_classes)
        Positive numbers that add up to 1.

    Examples
    --------
    >>> couple(np.array([[0.5, 0.5, 0.5]]), 3).round(6)
    array([[0.333333, 0.333333, 0.333333]])
    """
    # Certainty would make the system singular.
    later = np.clip(pairs, 1e-7, 1.0 - 1e-7)
    if n_classes == 2:
        return np.column_stack((1.0 - later[:, 0], later[:, 0]))
    first, second = np.triu_indices(n_classes, 1)
    result = np.empty((len(pairs), n_classes))
    for start in range(0, len(pairs), _BLOCK):
        block = later[start : start + _BLOCK]
        r = np.zeros((len(block), n_classes, n_classes))
        r[:, second, first], r[:, first, second] = block, 1.0 - block
        # Q_aa = sum over b of r_ba^2, Q_ab = -r_ba r_ab; Q p is the same for all classes.
        system = -r * r.transpose(0, 2, 1)
        diagonal = np.arange(n_classes)
        system[:, diagonal, diagonal] = (r**2).sum(axis=1)
        ones = np.ones((len(block), n_classes, 1))
        p = np.linalg.solve(system + np.ones((n_classes, n_classes)), ones)[:, :, 0]
        p = np.maximum(p, 1e-12)
        result[start : start + _BLOCK] = p / p.sum(axis=1, keepdims=True)
    return result


def _matrix(rows: Rows) -> Any:
    if isinstance(rows, CsrRows):
        import scipy.sparse

        return scipy.sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    return rows.X


def _scores(rows: Rows, coef: Vector) -> Vector:
    return np.asarray(_matrix(rows) @ coef.T, dtype=np.float64)


def _float64(rows: Rows) -> Rows:
    """Return dense rows in float64, in which moments are summed."""
    if isinstance(rows, CsrRows):
        return rows
    return DenseRows(rows.X.astype(np.float64, copy=False))


register_storable(MulticlassAUCClassifier)
