# SPDX-License-Identifier: BSD-3-Clause
"""Regression by minimum error entropy under differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.private.base import PrivateMixin
from pairlearn.estimators.shared.examples import check_columns, column_names
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.losses import WINDOWS
from pairlearn.models.record import ArraySpec
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.bounds import PrivateBounds
from pairlearn.privacy.mechanisms.noisy_sgd import NoisySGD
from pairlearn.privacy.records import read_numbers
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

#: The default bandwidth, in units of half the range of the target.
_BANDWIDTH = 0.1


class PrivateEntropyRegressor(
    PrivateMixin,
    RegressorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Linear regression of least error entropy with (epsilon, delta)-differential privacy.

    As `EntropyRegressor` it minimises the empirical Renyi entropy of its errors, so that neither
    gross outliers, nor a long tail on one side, nor several modes bias the coefficients. It
    descends on pairs of examples that meet in passes, with noise on the sums of clipped gradients
    (`privacy.NoisySGD`; lemma 22 in ``docs/privacy/lemmas.md``).

    All public facts are arguments. Values outside `bounds` are clipped, NaN becomes the middle of
    the bounds, targets are clipped to `target_bounds`, and an example whose target is not a number
    is ignored. No message and no attribute depends on the data except through the noise.

    Parameters
    ----------
    epsilon, delta : float
        The promise, as for `PrivateAUCClassifier`.
    bounds : tuple (lower, upper), PrivateBounds or "private"
        Public bounds of the features, as for `PrivateAUCClassifier`. Required.
    target_bounds : tuple (lower, upper)
        Public bounds of the target, two numbers. Required.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    window : {"gaussian", "epanechnikov"}, default="gaussian"
        The window of the entropy, as for `EntropyRegressor`.
    bandwidth : float, optional
        The bandwidth of the window, in units of the target; a twentieth of its range by default.
        It is public: choose it without looking at the data.
    mechanism : NoisySGD, optional
        How to learn, with constants, a window and a bandwidth of its own (in units of half the
        target's range), as in ``NoisySGD(loss=Welsch(0.1))``.
    neighbours, n_examples, random_state, ledger : str, int, seed, PrivacyLedger
        As for `PrivateAUCClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        Coefficients, for features inside the bounds.
    intercept_ : float
        Intercept: a mean of errors in which those far from the others count as less far.
    bounds_, certificate_, feature_names_in_, n_features_in_
        As for `PrivateAUCClassifier`.

    Examples
    --------
    One target in five is far too high:

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(3000, 3))
    >>> wrong = np.where(rng.random(3000) < 0.2, rng.uniform(1, 4, 3000), 0.0)
    >>> y = X @ [1.0, -0.5, 0.0] + 0.1 * rng.normal(size=3000) + wrong
    >>> model = PrivateEntropyRegressor(bounds=(-1, 1), target_bounds=(-4, 4)).fit(X, y)
    >>> bool(np.abs(model.coef_ - [1.0, -0.5, 0.0]).max() < 0.2)
    True
    >>> model.certificate_.epsilon
    1.0
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | PrivateBounds | str | None = None,
        target_bounds: tuple[float, float] | None = None,
        levels: ArrayLike | None = None,
        window: str = "gaussian",
        bandwidth: float | None = None,
        mechanism: NoisySGD | None = None,
        neighbours: str = "replace",
        n_examples: int | None = None,
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.levels = epsilon, delta, bounds, levels
        self.target_bounds, self.window, self.bandwidth = target_bounds, window, bandwidth
        self.mechanism, self.neighbours, self.n_examples = mechanism, neighbours, n_examples
        self.random_state, self.ledger = random_state, ledger

    _released_by = NoisySGD.name
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "intercept": ArraySpec(()),
        "bounds": ArraySpec((2, "n_features")),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> PrivateEntropyRegressor:
        """Learn from examples.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples; NaN and values outside the bounds are allowed.
        y : array-like of shape (n,)
            Targets; one that is not a number leaves its example out.
        groups : array-like of shape (n,) or (n, k), optional
            The person of each row, as for `PrivateAUCClassifier.fit`. Each person has one place,
            for which a row is drawn anew for each pass; the intercept is that of mean errors.

        Returns
        -------
        PrivateEntropyRegressor
            The fitted estimator.
        """
        rows, (low, high) = self._table(X), self._range()
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        targets = (np.clip(read_numbers("y", y, len(rows)), low, high) - middle) / half
        facts = {"target": f"between {low:g} and {high:g}, given by the caller"}
        fit, setting, fitted = self._learn(self._mechanism(half), rows, targets, groups, facts)
        assert fit.threshold is not None
        coef = half * fit.direction / setting.unit
        intercept = float(middle + half * fit.threshold - coef @ setting.middle)
        self._publish(column_names(X), coef_=coef, intercept_=intercept, **fitted)
        return self

    def predict(self, X: Any) -> Vector:
        """Return the predicted target of each row of `X`, for features clipped as in `fit`."""
        check_is_fitted(self, "coef_")
        check_columns(self, X)
        predicted: Vector = self._within_bounds(X) @ self.coef_ + self.intercept_
        return predicted

    def _range(self) -> tuple[float, float]:
        """Return the public bounds of the target."""
        given: Any = self.target_bounds
        ends = tuple(given) if np.ndim(given) == 1 else ()
        if len(ends) != 2:
            raise ValueError(
                f"target_bounds must be the public pair (lower, upper), got {given!r}; they cannot "
                "be read from the data without spending privacy."
            )
        low, high = (float(end) for end in ends)
        if not -math.inf < low < high < math.inf or math.isinf(high - low):
            raise ValueError(
                "target_bounds must be finite with lower < upper, and a finite width, got "
                f"{given!r}."
            )
        return low, high

    def _mechanism(self, half: float) -> NoisySGD:
        if self.mechanism is None:
            bandwidth = _BANDWIDTH
            if self.bandwidth is not None:
                bandwidth = check_positive("bandwidth", self.bandwidth) / half
            return NoisySGD(loss=WINDOWS.make(self.window).with_params(bandwidth=bandwidth))
        if not isinstance(self.mechanism, NoisySGD) or self.mechanism.kind != "difference":
            raise ValueError(
                "mechanism must be a NoisySGD with a window, such as NoisySGD(loss=Welsch(0.1)), "
                f"got {self.mechanism!r}."
            )
        if (self.window, self.bandwidth) != ("gaussian", None):
            raise ValueError(
                f"window={self.window!r} and bandwidth={self.bandwidth!r} are those of the "
                "default mechanism; leave them out, and give them to the object."
            )
        return self.mechanism


register_storable(PrivateEntropyRegressor)
