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

from pairlearn.estimators.private.mixin import PrivateMixin
from pairlearn.estimators.shared.examples import product, refuse_overflow
from pairlearn.estimators.shared.features_seen import check_columns, column_names, see_columns
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.features import FeatureMap, Identity
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.by_name import get_mechanism
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.mechanisms.sufficient_statistics import Moments
from pairlearn.privacy.narrowing import NoisyCounts, narrowed
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.public_maps import map_publicly, mapped_setting
from pairlearn.privacy.quartiles import PrivateBounds
from pairlearn.privacy.records import read_labels
from pairlearn.typing import Vector

_NO_THRESHOLD = "none: no threshold was released"


def _refusal(what: str, mechanism: str) -> AttributeError:
    return AttributeError(
        f"{mechanism} releases a direction and no {what}: finding it on private examples would "
        'cost more privacy. Use decision_function, or mechanism="statistics", whose releases '
        "determine it."
    )


def _has_threshold(model: PrivateAUCClassifier) -> bool:
    fitted = getattr(model, "certificate_", None)
    if fitted is not None and fitted.public.get("threshold") == _NO_THRESHOLD:
        raise _refusal("threshold", fitted.mechanism)
    return True


def _has_log_odds(model: PrivateAUCClassifier) -> bool:
    fitted = getattr(model, "certificate_", None)
    if fitted is not None and model.log_odds_ is None:
        raise _refusal("probabilities", fitted.mechanism)
    return True


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
        does so without a range; `privacy.planner.plan` says whether it pays.
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
    secure : bool, default=True
        Discrete noise on a grid, which closes the floating-point gap of the noise. False is faster
        and gives floating-point noise; the certificate says so.
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
        secure: bool = True,
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.levels = epsilon, delta, bounds, levels
        self.labels, self.mechanism, self.neighbours = labels, mechanism, neighbours
        self.n_examples, self.public_centre, self.features = n_examples, public_centre, features
        self.secure, self.random_state, self.ledger = secure, random_state, ledger

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    _not_stored = (*PrivateMixin._not_stored, "mechanism")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "intercept": ArraySpec(()),
        "lower": ArraySpec(("n_features",)),
        "upper": ArraySpec(("n_features",)),
        "log_odds": ArraySpec((2,), required=False),
    }

    def _pack(self) -> dict[str, NDArray[Any]]:
        lower, upper = self.bounds_
        intercept = self.intercept_[0]
        arrays = {"coef": self.coef_[0], "intercept": intercept, "lower": lower, "upper": upper}
        return arrays if self.log_odds_ is None else {**arrays, "log_odds": self.log_odds_}

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError(f"{type(self).__name__} has two classes; fit and save it again.")
        self.certificate_ = self._certificate_of(record)
        self.mechanism = self._stored_mechanism()
        self.bounds = (arrays["lower"].copy(), arrays["upper"].copy())
        self.bounds_ = np.stack(self.bounds)
        self.coef_ = arrays["coef"].copy()[None, :]
        self.intercept_ = arrays["intercept"].copy().reshape(1)
        self.log_odds_ = arrays["log_odds"].copy() if "log_odds" in arrays else None
        self.features_ = Identity.of(len(self.bounds_[0]))

    def _restore_map(self, features: FeatureMap) -> None:
        if features.n_inputs != len(self.bounds_[0]):
            raise ModelFileError(
                f"its map takes {features.n_inputs} features, but its bounds have "
                f"{len(self.bounds_[0])}."
            )
        self.features_ = features

    def _stored_mechanism(self) -> Any:
        """Return the mechanism that the certificate names; the file does not hold its constants."""
        return self._mechanism_of(self.certificate_)

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
            a data frame of k columns, or tuples. All rows with a missing id are one person.

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
        rows, names = self._table(X), column_names(X)
        mechanism = get_mechanism(self.mechanism)
        y = self._signs(y, len(rows))
        fit, setting, noise, cautions = self._learn(mechanism, rows, y, groups)
        unit = "example" if groups is None else "person"
        self._publish(fit, mechanism, setting, noise, cautions, unit)
        see_columns(self, names)
        return self

    def fit_by_releases(
        self,
        release_of: Callable[[PublicSetting], Callable[..., Moments]],
        ask: Callable[..., NoisyCounts],
        *,
        n_rows: int,
        n_features: int,
        noise: NoiseSource,
        facts: Mapping[str, str],
        persons: bool = False,
    ) -> PrivateAUCClassifier:
        """Learn from moments that are released elsewhere, for instance on many machines."""
        # `release_of` takes the public setting and returns the `release` of
        # `CentredStatistics.learn`; `ask` is that of `privacy.narrowing.narrowed`. They are called
        # after the ledger has recorded the cost. With neighbours="add_remove", `n_rows` is used
        # only to refuse more rows than `n_examples`. With `persons`, it counts persons, and they
        # are what is protected.
        mechanism = get_mechanism(self.mechanism)
        if not isinstance(mechanism, CentredStatistics):
            raise ValueError(
                f"{mechanism.name} needs all examples in one place; over partitions use the "
                "mechanism 'statistics', whose sums add up."
            )
        if self._search() is not None:
            raise ValueError(
                "bounds are found in one table only; over partitions give public bounds "
                "(lower, upper)."
            )
        if self.features != "linear":
            raise ValueError(
                f"over partitions scores are linear, got features={self.features!r}; leave it at "
                '"linear", or map the columns beforehand with public numbers.'
            )
        setting = self._setting(self._public_number(n_rows), n_features)
        cautions = self._cautions(setting.delta, setting.n_examples)
        mechanism.check(setting, noise)
        unit = "person" if persons else "example"
        if self.ledger is not None:
            units = "persons" if persons else "n"
            name = f"fit of {mechanism.name} over partitions, {units} = {setting.n_examples}"
            cost = mechanism.cost(setting)
            self.ledger.spend(name, **cost, neighbours=setting.neighbours, unit=unit)
        releases: list[Release] = []
        if self._narrows(mechanism):
            setting, releases = narrowed(setting, ask)
        self.features_ = map_publicly(self.features, setting)
        fit = mechanism.learn(release_of(setting), setting=setting, noise=noise)
        if releases:
            fit = fit.after(releases)
        self.bounds_ = np.stack([setting.lower, setting.upper])
        self._publish(fit, mechanism, setting, noise, cautions, unit, facts)
        return self

    def _publish(
        self,
        fit: PrivateFit,
        mechanism: Mechanism,
        setting: PublicSetting,
        noise: NoiseSource,
        cautions: tuple[str, ...],
        unit: str = "example",
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """Store the releases, and nothing else of the data."""
        known = {
            "labels": f"negative {self.labels[0]!r}, positive {self.labels[1]!r}",
            "threshold": _NO_THRESHOLD if fit.threshold is None else "from the releases",
        }
        self._certify(fit, mechanism, setting, noise, cautions, {**(facts or {}), **known}, unit)
        self.classes_ = public_classes(self.labels)
        mapped = mapped_setting(self.features_, setting)
        self.coef_ = (fit.direction / mapped.unit)[None, :]
        threshold = 0.0 if fit.threshold is None else fit.threshold
        self.intercept_ = np.array([-threshold - float(self.coef_[0] @ mapped.middle)])
        self.log_odds_ = None if fit.log_odds is None else np.array(fit.log_odds)

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

    @available_if(_has_threshold)  # type: ignore[untyped-decorator]
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row of `X`; it needs a mechanism that releases a threshold."""
        check_is_fitted(self, "coef_")
        labels: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return labels

    @available_if(_has_log_odds)  # type: ignore[untyped-decorator]
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
