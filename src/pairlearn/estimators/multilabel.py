# SPDX-License-Identifier: BSD-3-Clause
"""Many labels at once: one `AUCClassifier` for each label, kept as coefficients and cuts."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.classes.multiclass import pair_probabilities
from pairlearn.estimators.shared.decisions import DecisionRule, as_rule
from pairlearn.estimators.shared.examples import product, validate_data
from pairlearn.estimators.shared.solvers import Exact
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import chunk_weights
from pairlearn.metrics.auc import roc_auc
from pairlearn.models.record import ArraySpec
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_names, check_weights, refuse_masked

_KINDS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class MultilabelAUCClassifier(Storable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One linear score for each of many labels, that maximises its AUC.

    Each score is that of an `AUCClassifier` with the square loss, over pairs of an example with the
    label and one without. For other losses, features or streams take scikit-learn's
    ``MultiOutputClassifier(AUCClassifier(...))``.

    Parameters
    ----------
    solver : "exact" or Exact, default="exact"
        `Exact` holds the ridge. ``Exact(ridge="auto")`` chooses one for each label on held-out
        folds.
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

    _not_stored = ("random_state",)
    _takes_sparse = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

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
        rule = as_rule(self.decision)
        if rule.calibration != "sigmoid":
            raise ValueError(
                f'each label has a sigmoid, got decision={rule!r}; use calibration="sigmoid".'
            )
        model = copy.copy(self)  # A fit that fails leaves this model as it was.
        rows = validate_data(model, X, **_KINDS, order="C", ensure_min_samples=2)
        labels, weight = _indicator(y), chunk_weights(sample_weight, rows.shape[0])
        if len(labels) != rows.shape[0]:
            raise ValueError(
                f"X has {rows.shape[0]} examples and y has {len(labels)} rows; give one for each."
            )
        kept = labels[weight > 0.0] if len(weight) else labels
        if not len(kept):
            raise ValueError("sample_weight is zero for all examples; give some a positive weight.")
        same = np.flatnonzero(kept.all(axis=0) | ~kept.any(axis=0))
        if len(same):
            raise ValueError(
                f"every example of positive weight, or none, has label {same[0]}; there is no pair "
                "to tell apart: leave the column out."
            )
        base = AUCClassifier(
            loss="square",
            solver=self.solver,
            scaling=self.scaling,
            decision=rule,
            validation_fraction=self.validation_fraction,
            random_state=self.random_state,
        )
        given = {"sample_weight": weight} if len(weight) else {}
        found = MultiOutputClassifier(base).fit(rows, labels.astype(np.int64), **given).estimators_
        model.coef_ = np.concatenate([one.coef_ for one in found])
        model.ridges_ = np.array([one.choice_.ridge for one in found])
        model.thresholds_ = np.array([one.threshold_ for one in found])
        sigmoids = [one._calibrator for one in found]
        model.sigmoids_ = np.array([[one.slope, one.intercept] for one in sigmoids])
        self.__dict__ = model.__dict__
        return self

    @property
    def classes_(self) -> NDArray[np.int64]:
        """The values of each label, a row for each, as scikit-learn's scorers ask for them."""
        check_is_fitted(self, "coef_")
        return np.tile(np.array([0, 1]), (len(self.coef_), 1))

    def _products(self, X: Any) -> Vector:
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, **_KINDS, reset=False)
        return product(X, self.coef_.T)

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
        weight = np.ones(len(scores)) if sample_weight is None else sample_weight
        weight = check_weights(weight, len(scores), name="sample_weight")
        values = [
            roc_auc(has, own, sample_weight=weight)
            for has, own in zip(labels.T, scores.T, strict=True)
            if weight[has].any() and weight[~has].any()
        ]
        if not values:
            raise ValueError("no label tells these examples apart; there is no AUC.")
        return float(np.mean(values))


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
