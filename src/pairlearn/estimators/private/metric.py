# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning under differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from pairlearn.estimators.metric.mixin import MetricMixin, check_pairs
from pairlearn.estimators.metric.start import components_of
from pairlearn.estimators.private.base import PrivateMixin
from pairlearn.estimators.shared.features_seen import check_columns, column_names
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.losses import DistanceLogistic
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.noisy_sgd import NoisySGD
from pairlearn.privacy.quartiles import PrivateBounds
from pairlearn.privacy.records import check_public_labels, read_labels
from pairlearn.scores import MahalanobisScore
from pairlearn.typing import Vector


class PrivateMetricLearner(
    PrivateMixin,
    MetricMixin,
    BaseEstimator,  # type: ignore[misc]
):
    r"""Mahalanobis metric learning with (epsilon, delta)-differential privacy.

    Learns a positive semi-definite W for the squared distance
    :math:`h_W(x, x') = (x - x')^\top W (x - x')` from the mean of

    .. math:: \log(1 + e^{\tau (h_W(x, x') - b)}),

    with :math:`\tau = 1` for equal and -1 for different labels, over pairs that meet in passes,
    with noise on the sums of clipped gradients (`privacy.NoisySGD`). Descent starts from the
    Euclidean metric in units of the public ranges. More noise means smaller steps, so with a small
    budget the metric stays near the Euclidean one.

    All public facts are arguments. Values outside `bounds` are clipped, NaN becomes the middle of
    the bounds, and an example whose label is not in `labels` is ignored. No message and no
    attribute depends on the data except through the noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy parameter.
    delta : float, optional
        The failure probability; the smaller of 1/(10 n) and n^(-3/2) by default.
    bounds : tuple (lower, upper), PrivateBounds or "private"
        Public bounds of the features, each a number or one number for each feature. Required; see
        `PrivateAUCClassifier` for bounds found with a part of the budget.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    labels : tuple, default=(0, 1)
        All labels, public. Pairs of different labels have weight 1/(K - 1) for K labels, so that
        near and far pairs balance for classes of equal size.
    mechanism : NoisySGD, optional
        How to learn, with a loss of a squared distance; by default `DistanceLogistic`, and the
        constants of `NoisySGD` for it.
    neighbours : {"replace", "add_remove"}, default="replace"
        Whether data sets are neighbours if one example is replaced, or added or removed.
    n_examples : int, optional
        The public number of examples that scales the release and sets the default delta. With
        neighbours="add_remove" the number of rows is secret, so give an upper bound on it; the
        guarantee covers at most this many rows. With "replace" it is the number of rows.
    random_state : int, optional
        Makes the noise reproducible: for simulations only. The certificate then says that the
        model is not private, and a warning is given.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; it records the fit before the data are read.

    Attributes
    ----------
    components_ : ndarray of shape (d, d)
        L with W = L' L: the map of `transform`, for features inside the bounds.
    certificate_ : Certificate
        The guarantee and the facts behind it.
    bounds_ : ndarray of shape (2, d)
        Lower and upper bounds to which examples are clipped, public or released.
    features_ : FeatureMap
        The identity: a private metric uses the raw features.
    feature_names_in_ : ndarray of str
        Names of the columns, if X had any. They are public; `transform` compares them.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    A pass releases d (d + 1)/2 numbers, with noise proportional to d/(n epsilon). With many
    features and few examples there is nothing to gain over the Euclidean metric. A search for
    nearest neighbours uses raw examples: publishing them, or labels predicted from them, publishes
    more than the metric.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 1500)
    >>> X = rng.normal(size=(1500, 4))
    >>> X[:, 0] = 2.0 * (y - 1) + 0.3 * X[:, 0]
    >>> model = PrivateMetricLearner(epsilon=4.0, bounds=(-4, 4), labels=(0, 1, 2)).fit(X, y)
    >>> W = model.get_mahalanobis_matrix()
    >>> bool(W[0, 0] > W[1, 1])
    True
    >>> print(model.certificate_.statement())
    This model is (4, 1.72133e-05)-differentially private with respect to one example replaced...
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | PrivateBounds | str | None = None,
        levels: ArrayLike | None = None,
        labels: tuple[Any, ...] = (0, 1),
        mechanism: NoisySGD | None = None,
        neighbours: str = "replace",
        n_examples: int | None = None,
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.levels = epsilon, delta, bounds, levels
        self.labels, self.mechanism = labels, mechanism
        self.neighbours, self.n_examples = neighbours, n_examples
        self.random_state, self.ledger = random_state, ledger

    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "components": ArraySpec(("n_features", "n_features")),
        "lower": ArraySpec(("n_features",)),
        "upper": ArraySpec(("n_features",)),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def _pack(self) -> dict[str, NDArray[Any]]:
        lower, upper = self.bounds_
        return {"components": self.components_, "lower": lower, "upper": upper}

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        self.certificate_ = self._certificate_of(record, NoisySGD.name)
        self.bounds = (arrays["lower"].copy(), arrays["upper"].copy())
        self.bounds_ = np.stack(self.bounds)
        self.components_ = arrays["components"].copy()
        self._n_features_out = len(self.components_)

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> PrivateMetricLearner:
        """Learn from examples.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples; NaN and values outside the bounds are allowed.
        y : array-like of shape (n,)
            Labels; an example whose label is not public is ignored.
        groups : array-like of shape (n,) or (n, k), optional
            The person of each row, as for `PrivateAUCClassifier.fit`. The guarantee then protects a
            person with all rows: each person has one place, for which a row is drawn anew for each
            pass, and n is the number of persons.

        Returns
        -------
        PrivateMetricLearner
            The fitted estimator.
        """
        rows, mechanism = self._table(X), self._mechanism()
        facts = {"labels": ", ".join(repr(label) for label in self.labels)}
        codes = self._codes(y, len(rows))
        fit, setting, fitted = self._learn(mechanism, rows, codes, groups, facts)
        standard = components_of(MahalanobisScore(), fit.direction, setting.n_features)
        components = standard / setting.unit
        self._publish(
            column_names(X), components_=components, _n_features_out=len(components), **fitted
        )
        return self

    def _mechanism(self) -> NoisySGD:
        labels = tuple(self.labels)
        if len(check_public_labels(labels)) < 2:
            raise ValueError(f"labels must be two or more different labels, got {self.labels!r}.")
        if self.mechanism is None:
            return NoisySGD(loss=DistanceLogistic(), different_weight=1.0 / (len(labels) - 1))
        if not isinstance(self.mechanism, NoisySGD) or self.mechanism.kind != "distance":
            raise ValueError(
                "mechanism must be a NoisySGD with a loss of a squared distance, such as "
                f"NoisySGD(loss=DistanceLogistic()), got {self.mechanism!r}."
            )
        return self.mechanism

    def _codes(self, y: ArrayLike, n: int) -> Vector:
        """Return the position of each label among the public ones, NaN for any other."""
        codes = read_labels(y, self.labels, n)
        return np.where(codes < 0, np.nan, codes)

    def _rows(self, X: Any) -> Vector:
        check_columns(self, X)
        return self._within_bounds(X)

    def _pairs(self, pairs: Any) -> Vector:
        array = check_pairs(
            pairs, self.n_features_in_, owner=type(self).__name__, allow_missing=True
        )
        return self._within_bounds(array.reshape(-1, self.n_features_in_)).reshape(array.shape)


register_storable(PrivateMetricLearner)
