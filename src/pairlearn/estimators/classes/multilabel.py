# SPDX-License-Identifier: BSD-3-Clause
r"""Many labels at once: one score for each label, all on the same folds and the same moments.

With n, s and S the number, the sum and the second moment of some examples, those without a label
have n - n_k, s - s_k and S - S_k. One pass over the examples for the sums of all, and one over the
examples with each label, give every score, every ridge and every fold in closed form (see
`class_moments`); a rare label costs little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.classes.coupling import pair_probabilities
from pairlearn.estimators.shared.calibration import Sigmoid
from pairlearn.estimators.shared.class_moments import (
    ClassSystems,
    ClosedForm,
    CompactRows,
)
from pairlearn.estimators.shared.evidence import Candidate, best_of
from pairlearn.estimators.shared.published import all_or_nothing
from pairlearn.estimators.shared.rules import DecisionRule, Threshold, as_rule
from pairlearn.estimators.shared.solvers import Exact
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import chunk_weights
from pairlearn.folds import Keys, deal, n_folds_of, splits_of
from pairlearn.metrics.auc import roc_auc
from pairlearn.models.registry import ArraySpec
from pairlearn.solvers.blas_threads import with_one_thread
from pairlearn.solvers.rows import CsrRows, Rows, as_rows
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import (
    as_counts,
    check_generator,
    check_names,
    check_weights,
    refuse_masked,
)


@dataclass(frozen=True)
class _Sums:
    """Weight, weighted sum and weighted second moment of some rows."""

    mass: float
    first: Vector
    second: Vector

    @classmethod
    def of(cls, rows: Rows, weight: Vector) -> _Sums:
        X = rows.matrix
        if isinstance(rows, CsrRows):
            second = np.asarray((X.multiply(weight[:, None]).T @ X).todense())
        else:
            second = (X * weight[:, None]).T @ X
        return cls(float(weight.sum()), np.asarray(weight @ X), second)

    def __sub__(self, other: _Sums) -> _Sums:
        return _Sums(self.mass - other.mass, self.first - other.first, self.second - other.second)

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.mass + other.mass, self.first + other.first, self.second + other.second)


def _moments(without: _Sums, having: _Sums) -> ClassSystems:
    means = np.array([one.first / one.mass for one in (without, having)])
    seconds = np.array([one.second / one.mass for one in (without, having)])
    covariances = seconds - means[:, :, None] * means[:, None, :]
    return ClassSystems(means, covariances, np.array([without.mass, having.mass]))


class MultilabelAUCClassifier(ClosedForm, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One linear score for each of many labels, that maximises its AUC.

    Each score minimises the square loss over pairs of an example with the label and one without.

    Parameters
    ----------
    solver : "exact" or Exact, default="exact"
        `Exact` holds the ridge. ``Exact(ridge="auto")`` takes for each label the best of 100, 10,
        ..., 1e-6 by AUC over folds that all labels share.
    scaling : "auto" or None, default="auto"
        "auto" centres and scales features inside `fit`, as in `AUCClassifier`; coefficients are in
        the units of X.
    decision : float, str or DecisionRule, default="balanced_accuracy"
        Where the scores of each label are cut, as of `AUCClassifier`: the best cut on held-out
        scores by "balanced_accuracy", "accuracy", "f1" or `Costs`, "probability", or a number for
        all labels. Probabilities are sigmoids of the scores.
    validation_fraction : float, default=0.2
        The share of a fold; 0.2 makes five.
    random_state : int, RandomState, Generator or None, default=None
        Deals the folds.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Coefficients of the scores.
    ridges_, thresholds_ : ndarray of shape (n_labels,)
        Ridge and threshold of each label.
    sigmoids_ : ndarray of shape (n_labels, 2)
        Slope and intercept of the probability of each label.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A label of a single example has no held-out score: it takes the strongest ridge, and threshold
    and probability from the example itself.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> Y = (X @ rng.normal(size=(3, 2)) + rng.normal(size=(200, 2)) > 0.5).astype(int)
    >>> clf = MultilabelAUCClassifier(random_state=0).fit(X, Y)
    >>> clf.predict(X).shape, bool(clf.score(X, Y) > 0.8)
    ((200, 2), True)
    """

    _arrays: ClassVar[dict[str, ArraySpec]] = {
        "coef": ArraySpec(("n_labels", "n_features")),
        "ridges": ArraySpec(("n_labels",), low=0.0),
        "thresholds": ArraySpec(("n_labels",)),
        "sigmoids": ArraySpec(("n_labels", 2)),
    }

    coef_: Vector
    ridges_: Vector
    thresholds_: Vector
    sigmoids_: Vector

    def __init__(
        self,
        *,
        solver: str | Exact = "exact",
        scaling: str | None = "auto",
        decision: float | str | DecisionRule = "balanced_accuracy",
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.solver, self.scaling, self.decision = solver, scaling, decision
        self.validation_fraction, self.random_state = validation_fraction, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    @all_or_nothing
    @with_one_thread
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the scores of all labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels)
            1 where an example has a label, 0 elsewhere.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; a pair weighs the product of both.

        Returns
        -------
        self
            The fitted classifier.
        """
        candidates = self._ridges()
        rule = self._rule()
        given = as_rows(self._checked(X), finite=True)
        labels = _indicator(y)
        n = given.shape[0]
        if len(labels) != n:
            raise ValueError(f"X has {n} examples and y has {len(labels)} rows; give one for each.")
        counts = chunk_weights(sample_weight, n)
        if len(counts) and not counts.all():
            kept = np.flatnonzero(counts)
            if not len(kept):
                raise ValueError(
                    "sample_weight is zero for all examples; give some a positive weight."
                )
            given, labels, counts, n = given.take(kept), labels[kept], counts[kept], len(kept)
        weight = as_counts(counts) if len(counts) else np.ones(n)
        with_label = weight @ labels
        for k in np.flatnonzero((with_label == 0.0) | (with_label == weight.sum())).tolist():
            has = "every" if with_label[k] else "no"
            raise ValueError(
                f"{has} example (of positive weight) has label {k}; there is no pair to tell "
                "apart: leave the column out."
            )
        what, cure = "labels are not solved", "MultiOutputClassifier(AUCClassifier())"
        ready = self._compact(given, counts, what, cure=cure)
        rows = ready.rows
        rng = check_generator(self.random_state)
        keys = Keys.of(given, seed=rng)
        n_folds = n_folds_of(self.validation_fraction, n)
        fold = deal([np.arange(n)], n, keys, n_folds=n_folds)
        parts = [held for _, held in splits_of(fold)]
        of_all = [_Sums.of(rows.take(part), weight[part]) for part in parts]
        total = _added(of_all)
        found = [
            _fit_label(ready, labels[:, k], weight, parts, of_all, total, candidates, rule)
            for k in range(labels.shape[1])
        ]
        coef, shift = ready.to_user(np.array([one[0] for one in found]))
        self.ridges_ = np.array([one[1] for one in found])
        sigmoids = np.array([one[3] for one in found])
        sigmoids[:, 1] -= sigmoids[:, 0] * shift
        cuts = np.array([one[2] for one in found]) + shift
        if isinstance(rule, Threshold) and not isinstance(rule.at, str):
            # A number is about the scores that the user sees.
            cuts = np.full(len(cuts), float(rule.at))
        self.thresholds_ = cuts
        self.coef_, self.sigmoids_ = coef, sigmoids
        return self

    def _rule(self) -> DecisionRule:
        """Return the decision rule of all labels."""
        rule = as_rule(self.decision)
        if rule.calibration != "sigmoid":
            raise ValueError(
                f'each label has a sigmoid, got decision={rule!r}; use calibration="sigmoid".'
            )
        return rule

    @property
    def classes_(self) -> NDArray[np.int64]:
        """The values of each label, a row for each, as scikit-learn's scorers ask for them."""
        check_is_fitted(self, "coef_")
        return np.tile(np.array([0, 1]), (len(self.coef_), 1))

    def decision_function(self, X: Any) -> Vector:
        """Return scores minus thresholds, of shape (n_samples, n_labels)."""
        return self._products(X) - self.thresholds_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 where a label is predicted, of shape (n_samples, n_labels)."""
        return (self.decision_function(X) > 0.0).astype(np.int64)

    def predict_proba(self, X: Any) -> Vector:
        """Return the probability of each label, of shape (n_samples, n_labels)."""
        return pair_probabilities(self._products(X), self.sigmoids_)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean AUC over the labels that some, but not all, of these examples have."""
        scores, labels = self._products(X), _indicator(y)
        if labels.shape != scores.shape:
            raise ValueError(f"y must have the shape {scores.shape}, got {labels.shape}.")
        weight = np.ones(len(scores))
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(scores), name="sample_weight")
        values = [
            roc_auc(labels[:, k], scores[:, k], sample_weight=weight)
            for k in range(labels.shape[1])
            if _both(labels[:, k], weight)
        ]
        if not values:
            raise ValueError("no label tells these examples apart; there is no AUC.")
        return float(np.mean(values))


def _fit_label(
    ready: CompactRows,
    has: Mask,
    weight: Vector,
    parts: list[Places],
    of_all: list[_Sums],
    total: _Sums,
    candidates: tuple[float, ...],
    rule: DecisionRule,
) -> tuple[Vector, float, float, tuple[float, float]]:
    """Return coefficients, ridge, threshold and sigmoid of one label."""
    rows = ready.rows
    having = [_Sums.of(rows.take(part[has[part]]), weight[part[has[part]]]) for part in parts]
    all_having = _added(having)
    # A fold is scored where the label is told apart on both sides of it.
    usable = [
        f
        for f, part in enumerate(parts)
        if _both(has[part], weight[part])
        and min(
            all_having.mass - having[f].mass,
            total.mass - of_all[f].mass - all_having.mass + having[f].mass,
        )
        > 1e-12 * total.mass
    ]
    held = []
    for f in usable:
        train = all_having - having[f]
        held.append((parts[f], _moments(total - of_all[f] - train, train)))

    def solutions() -> Iterator[Candidate[list[Vector]]]:
        for one in candidates:
            tried = [ready.scores(t, m.solve_pairs(one))[:, 0] for t, m in held]
            worth = [
                roc_auc(has[test], s, sample_weight=weight[test])
                for (test, _), s in zip(held, tried, strict=True)
            ]
            yield {"ridge": one}, tried, worth

    best = best_of(solutions()) if held else None
    ridge = best.evidence.values["ridge"] if best else candidates[0]
    coef = _moments(total - all_having, all_having).solve_pairs(ridge)[0]
    index = np.concatenate([test for test, _ in held]) if held else np.arange(len(has))
    judged = np.concatenate(best.model) if best else rows.scores(coef) - coef @ ready.middle
    cut, sigmoid = rule.decide(judged, has[index], weight[index], (1.0, 1.0))
    assert isinstance(sigmoid, Sigmoid)
    return coef, ridge, cut, (sigmoid.slope, sigmoid.intercept)


def _added(sums: list[_Sums]) -> _Sums:
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    return total


def _both(has: Mask, weight: Vector) -> bool:
    """Return whether there are examples with the label and without it."""
    return bool(weight[has].sum() > 0.0 and weight[~has].sum() > 0.0)


def _indicator(y: Any) -> Mask:
    """Return which example has which label, or refuse what does not say so."""
    if y is None:
        raise ValueError(
            "MultilabelAUCClassifier requires y to be passed, but the target y is None; give a "
            "column of 0 and 1 for each label."
        )
    refuse_masked("y", y)
    array = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    if array.ndim != 2 or array.shape[1] < 1:
        raise ValueError(
            f"y must have a row for each example and a column for each label, got shape "
            f"{array.shape}; for classes that exclude each other use MulticlassAUCClassifier."
        )
    for column in array.T if array.dtype.kind == "O" else ():
        check_names("y", column, "label")
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise ValueError("y must hold 1 where an example has a label and 0 elsewhere.")
    return array.astype(np.bool_)


register_storable(MultilabelAUCClassifier)
