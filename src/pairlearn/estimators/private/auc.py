# SPDX-License-Identifier: BSD-3-Clause
"""A linear classifier that maximises AUC under differential privacy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.private.base import PrivateMixin
from pairlearn.estimators.shared.examples import (
    check_columns,
    column_names,
    product,
    refuse_overflow,
)
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.features import FeatureMap, Identity
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord, reason
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.bounds import PrivateBounds
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.by_name import get_mechanism
from pairlearn.privacy.public_maps import mapped_setting
from pairlearn.privacy.records import read_labels
from pairlearn.typing import Vector


def _determines(what: str) -> Callable[[PrivateAUCClassifier], bool]:
    """Return the check that the releases determine a threshold, and with it log odds."""

    def known(model: PrivateAUCClassifier) -> bool:
        if hasattr(model, "certificate_") and model.log_odds_ is None:
            raise AttributeError(
                f"{model.certificate_.mechanism} releases a direction and no {what}: finding it on "
                "private examples would cost more privacy. Use decision_function, or "
                'mechanism="statistics", whose releases determine it.'
            )
        return True

    return known


class PrivateAUCClassifier(PrivateMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Linear AUC maximisation with (epsilon, delta)-differential privacy.

    All public facts are arguments. Values outside `bounds` are clipped, NaN becomes the middle of
    the bounds, and a label other than the positive one counts as negative. No message and no
    attribute depends on the data except through the noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy parameter.
    delta : float, optional
        The failure probability; the smaller of 1/(10 n) and n^(-3/2) by default. A value of 1/n
        or more gets a warning: at 1/n, publishing one random record would be allowed.
    bounds : tuple (lower, upper), PrivateBounds or "private"
        Public bounds of the features, each a number or one number for each feature. Required. The
        default mechanism narrows bounds that turn out far too wide, with at most .15 of mu^2;
        ``CentredStatistics(narrow_bounds=False)`` keeps them as given. If they are unknown,
        `PrivateBounds` finds some inside a public range with a fifth of the budget, and "private"
        does so without a range.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    labels : tuple (negative, positive), default=(0, 1)
        The two labels, public. scikit-learn's own scorers, such as "roc_auc", take the larger one
        for the positive one, whatever stands here; those of `pairlearn.scorer` take the second.
    mechanism : str or Mechanism, default="statistics"
        How to learn; see `privacy.mechanisms.by_name`.
    neighbours : {"replace", "add_remove"}, default="replace"
        Whether data sets are neighbours if one example is replaced, or added or removed.
    n_examples : int, optional
        The public number of examples that scales the release and sets the default delta. With
        neighbours="add_remove" the number of rows is secret, so give an upper bound on it; the
        guarantee covers at most this many rows. With "replace" it is the number of rows.
    public_centre : array-like, optional
        A typical value of each feature known without the data; the middle of the bounds by
        default. A good guess saves budget.
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in: the features, piecewise linear functions of each feature with 5
        knots between its bounds, or 64 random sines and cosines of all. A map of
        `pairlearn.features` must use public numbers only; a map that learns from examples is
        refused. Noise grows with the root of the number of mapped features, so nonlinear maps pay
        with many examples only.
    random_state : int, optional
        Makes the noise reproducible: for simulations only. The certificate then says that the
        model is not private, and a warning is given.
    ledger : PrivacyLedger, optional
        A budget shared with other releases. It records the fit before the data are read, and
        refuses a fit that would overspend.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
        The score's coefficients for features inside the bounds.
    intercept_ : ndarray of shape (1,)
        Puts the decision threshold at 0. The default mechanism puts it halfway between the released
        class means; a mechanism that releases no threshold puts it at the public middle.
    log_odds_ : ndarray of shape (2,) or None
        Slope and offset of the log odds of the positive label over `decision_function`, from the
        same releases; None if the mechanism does not determine them.
    features_ : FeatureMap
        The map; coefficients are those of mapped features.
    classes_ : ndarray of shape (2,)
        The public labels.
    bounds_ : ndarray of shape (2, d)
        Lower and upper bounds to which examples are clipped, public or released.
    certificate_ : Certificate
        The guarantee and the facts behind it.
    feature_names_in_ : ndarray of str
        Names of the columns, if X had any. They are public; `predict` compares them.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 3000)
    >>> X = np.clip(rng.normal(size=(3000, 3)) + 2 * y[:, None], -4, 6)
    >>> model = PrivateAUCClassifier(epsilon=1.0, bounds=(-4, 6), labels=(0, 1)).fit(X, y)
    >>> float((model.predict(X) == y).mean()) > 0.85
    True
    >>> print(model.certificate_.statement())
    This model is (1, 6.08581e-06)-differentially private with respect to one example replaced...
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | PrivateBounds | str | None = None,
        levels: ArrayLike | None = None,
        labels: tuple[Any, Any] = (0, 1),
        mechanism: str | Mechanism = "statistics",
        neighbours: str = "replace",
        n_examples: int | None = None,
        public_centre: ArrayLike | None = None,
        features: str | FeatureMap = "linear",
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.levels = epsilon, delta, bounds, levels
        self.labels, self.mechanism, self.neighbours = labels, mechanism, neighbours
        self.n_examples, self.public_centre, self.features = n_examples, public_centre, features
        self.random_state, self.ledger = random_state, ledger

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec((1, "n_features")),
        "intercept": ArraySpec((1,)),
        "bounds": ArraySpec((2, "n_features")),
        "log_odds": ArraySpec((2,), required=False),
    }

    def _unpack(self, record: ModelRecord) -> None:
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError(f"{type(self).__name__} has two classes; fit and save it again.")
        super()._unpack(record)
        # The file does not hold the constants of the mechanism.
        if not self._released_by:
            try:
                self.mechanism = get_mechanism(self.certificate_.mechanism).name
            except ValueError as error:
                raise ModelFileError(f"its certificate cannot be read: {reason(error)}") from None

    def _restore_map(self, features: FeatureMap) -> None:
        width = self.bounds_.shape[1]
        if features.n_inputs != width:
            raise ModelFileError(
                f"its map takes {features.n_inputs} features, but its bounds have {width}."
            )
        self.features_ = features

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> PrivateAUCClassifier:
        """Learn from examples.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples; NaN and values outside the bounds are allowed.
        y : array-like of shape (n,)
            Labels; any label but the positive one counts as negative.
        groups : array-like of shape (n,) or (n, k), optional
            The person of each row, for mechanism="statistics" and "noisy_sgd". The guarantee then
            protects a person with all rows. Each person has the same weight, and n is the number
            of persons. A person is an exact text or integer ("007" is not "7"), or several of them:
            a data frame of k columns, or tuples. Rows with a missing id count
            nowhere.

            scikit-learn's cross-validation gives its own `groups` to the splitter only, and `fit`
            cannot notice. To pass them on, use
            ``sklearn.set_config(enable_metadata_routing=True)``,
            ``model.set_fit_request(groups=True)`` and
            ``cross_val_score(model, X, y, params={"groups": groups})``. A
            ``PrivacyLedger(..., unit="person")`` refuses every fit without groups.

        Returns
        -------
        PrivateAUCClassifier
            The fitted estimator.
        """
        rows, mechanism = self._table(X), get_mechanism(self.mechanism)
        y = self._signs(y, len(rows))
        fit, setting, fitted = self._learn(mechanism, rows, y, groups, self._public_labels())
        self._publish(column_names(X), **self._linear(fit, setting, fitted), **fitted)
        return self

    def _public_labels(self) -> dict[str, str]:
        return {"labels": f"negative {self.labels[0]!r}, positive {self.labels[1]!r}"}

    def _linear(
        self, fit: PrivateFit, setting: PublicSetting, fitted: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the fitted attributes of a linear score."""
        mapped = mapped_setting(fitted["features_"], setting)
        coef = fit.direction / mapped.unit
        threshold = 0.0 if fit.threshold is None else fit.threshold
        return {
            "classes_": public_classes(self.labels),
            "coef_": coef[None, :],
            "intercept_": np.array([-threshold - float(coef @ mapped.middle)]),
            "log_odds_": None if fit.log_odds is None else np.array(fit.log_odds),
        }

    def decision_function(self, X: ArrayLike) -> Vector:
        """Return the score of each row of `X`, clipped as in `fit`; positives score higher."""
        check_is_fitted(self, "coef_")
        check_columns(self, X)
        rows = self._within_bounds(X)
        if not isinstance(self.features_, Identity):
            rows = self.features_.transform(rows)
        scores = product(rows, self.coef_[0])
        with np.errstate(over="ignore"):
            return refuse_overflow(scores + self.intercept_[0], self.coef_)

    @available_if(_determines("threshold"))  # type: ignore[untyped-decorator]
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row of `X`; it needs a mechanism that releases a threshold."""
        check_is_fitted(self, "coef_")
        labels: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return labels

    @available_if(_determines("probabilities"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Vector:
        """Return probabilities of ``classes_``, by a normal model with the released moments."""
        check_is_fitted(self, "coef_")
        assert self.log_odds_ is not None
        slope, offset = self.log_odds_
        with np.errstate(over="ignore"):  # the probability is 0 or 1 there anyway
            odds = np.clip(slope * self.decision_function(X) + offset, -700.0, 700.0)
        positive = 1.0 / (1.0 + np.exp(-odds))
        return np.column_stack([1.0 - positive, positive])

    def _signs(self, y: ArrayLike, n: int) -> Vector:
        if len(tuple(self.labels)) != 2:
            raise ValueError(f"labels must be (negative, positive), got {self.labels!r}.")
        return np.where(read_labels(y, self.labels, n) == 1, 1.0, -1.0)


def public_classes(labels: tuple[Any, ...]) -> NDArray[Any]:
    """Return public labels as an array that keeps their types."""
    classes = np.asarray(labels)
    if classes.shape != (len(labels),) or classes.tolist() != list(labels):
        classes = np.empty(len(labels), dtype=object)
        classes[:] = labels
    return classes


register_storable(PrivateAUCClassifier)
