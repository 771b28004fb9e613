# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning under differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from pairlearn.estimators.metric.descent import components_of
from pairlearn.estimators.metric.learner import MetricMixin, check_pairs
from pairlearn.estimators.private.base import PrivateMixin
from pairlearn.estimators.shared.examples import check_columns, column_names
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.losses import DistanceLogistic
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.bounds import PrivateBounds
from pairlearn.privacy.mechanisms.noisy_sgd import NoisySGD
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
    epsilon, delta : float
        The promise, as for `PrivateAUCClassifier`.
    bounds : tuple (lower, upper), PrivateBounds or "private"
        Public bounds of the features, as for `PrivateAUCClassifier`. Required.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    labels : tuple, default=(0, 1)
        All labels, public. Pairs of different labels have weight 1/(K - 1) for K labels, so that
        near and far pairs balance for classes of equal size.
    mechanism : NoisySGD, optional
        How to learn, with a loss of a squared distance; by default `DistanceLogistic`, and the
        constants of `NoisySGD` for it.
    neighbours, n_examples, random_state, ledger : str, int, seed, PrivacyLedger
        As for `PrivateAUCClassifier`.

    Attributes
    ----------
    components_ : ndarray of shape (d, d)
        L with W = L' L: the map of `transform`, for features inside the bounds.
    bounds_, certificate_, feature_names_in_, n_features_in_
        As for `PrivateAUCClassifier`.

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

    _released_by = NoisySGD.name
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "components": ArraySpec(("n_features", "n_features")),
        "bounds": ArraySpec((2, "n_features")),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
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
            The person of each row, as for `PrivateAUCClassifier.fit`. Each person has one place,
            for which a row is drawn anew for each pass.

        Returns
        -------
        PrivateMetricLearner
            The fitted estimator.
        """
        rows, mechanism = self._table(X), self._mechanism()
        facts = {"labels": ", ".join(repr(label) for label in self.labels)}
        codes = read_labels(y, self.labels, len(rows)).astype(np.float64)
        codes[codes < 0] = np.nan
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

    def _rows(self, X: Any) -> Vector:
        check_columns(self, X)
        return self._within_bounds(X)

    def _pairs(self, pairs: Any) -> Vector:
        array = check_pairs(
            pairs, self.n_features_in_, owner=type(self).__name__, allow_missing=True
        )
        return self._within_bounds(array.reshape(-1, self.n_features_in_)).reshape(array.shape)


register_storable(PrivateMetricLearner)
