# SPDX-License-Identifier: BSD-3-Clause
"""A linear classifier that maximises AUC under differential privacy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.storage import Storable, register_storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.privacy.certificate import Certificate
from pairlearn.privacy.ledger import PrivacyLedger
from pairlearn.privacy.mechanism import Mechanism, PrivateFit, PublicSetting, certify
from pairlearn.privacy.mechanisms import get_mechanism
from pairlearn.privacy.noise import NoiseSource

__all__ = ["PrivacyWarning", "PrivateAUCClassifier"]


class PrivacyWarning(UserWarning):
    """The privacy promise is weaker than a reader might think."""


class PrivateAUCClassifier(Storable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Linear AUC maximisation with an (epsilon, delta)-differential-privacy promise.

    Whatever must be known before the data are touched is an argument. Values outside `bounds` are
    clipped, NaN becomes the middle of the bounds, and a label other than the positive one counts
    as negative; no message and no attribute depends on the data except through the noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy parameter.
    delta : float, optional
        The failure probability; the smaller of 1/(10 n) and n^(-3/2) by default. A value of 1/n
        or more gets a warning: at 1/n, publishing one random record would be allowed.
    bounds : tuple (lower, upper)
        Public bounds of the features, each a number or one number for each feature. Required.
    levels : array-like of int, optional
        0 for a continuous feature, k for a code of k equally spaced levels.
    labels : tuple (negative, positive), default=(0, 1)
        The two labels, public.
    mechanism : str or Mechanism, default="statistics"
        How to learn; see `pairlearn.privacy.mechanisms`.
    neighbours : {"replace", "add_remove"}, default="replace"
        Whether data sets are neighbours if one example is replaced, or added or removed. In the
        second case the number of rows is used as if it were a public constant.
    public_centre : array-like, optional
        A typical value of each feature known without the data; the middle of the bounds by
        default. A good guess saves budget.
    secure : bool, default=False
        Discrete noise on a grid from operating-system bytes, which closes the floating-point gap
        of the noise.
    random_state : int, optional
        Makes the noise reproducible: for simulations only. The certificate then says that the
        model is not private, and a warning is given.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; the fit is entered before the data are read and
        refused if it would overspend.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
        The score's coefficients for features inside the bounds.
    intercept_ : ndarray of shape (1,)
        Puts the decision threshold at 0.
    classes_ : ndarray of shape (2,)
        The public labels.
    certificate_ : Certificate
        What is promised, and on which facts it rests.
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
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        levels: ArrayLike | None = None,
        labels: tuple[Any, Any] = (0, 1),
        mechanism: str | Mechanism = "statistics",
        neighbours: str = "replace",
        public_centre: ArrayLike | None = None,
        secure: bool = False,
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.levels = levels
        self.labels = labels
        self.mechanism = mechanism
        self.neighbours = neighbours
        self.public_centre = public_centre
        self.secure = secure
        self.random_state = random_state
        self.ledger = ledger

    # A file holds what was released, what is public, and the certificate. A seed would give the
    # noise away, and a ledger is a file of its own.
    _not_stored = ("random_state", "ledger", "bounds", "mechanism")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "intercept": ArraySpec(()),
        "lower": ArraySpec(("n_features",)),
        "upper": ArraySpec(("n_features",)),
    }

    def _pack(self) -> dict[str, NDArray[Any]]:
        lower, upper = self._bounds(self.n_features_in_)
        intercept = self.intercept_[0]
        return {"coef": self.coef_[0], "intercept": intercept, "lower": lower, "upper": upper}

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        if record.certificate is None:
            raise ModelFileError("a private model comes with a certificate; this file has none.")
        try:
            self.certificate_ = Certificate.from_dict(record.certificate)
            self.mechanism = get_mechanism(self.certificate_.mechanism).name
        except (ValueError, TypeError, KeyError) as error:
            raise ModelFileError(f"its certificate cannot be read: {error}") from None
        self.bounds = (arrays["lower"].copy(), arrays["upper"].copy())
        self.coef_ = arrays["coef"].copy()[None, :]
        self.intercept_ = arrays["intercept"].copy().reshape(1)

    def _provenance(self, given: dict[str, Any]) -> dict[str, Any]:
        # The number of rows is public in the certificate; a fingerprint would not be.
        if "data_fingerprint" in given:
            raise ModelFileError(
                "a fingerprint of private data would be a release of its own; leave it out."
            )
        return super()._provenance({"rows_seen": self.certificate_.n_examples} | given)

    def fit(self, X: ArrayLike, y: ArrayLike) -> PrivateAUCClassifier:
        """Learn from examples.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples; NaN and values outside the bounds are allowed.
        y : array-like of shape (n,)
            Labels; whatever is not the positive label counts as negative.

        Returns
        -------
        PrivateAUCClassifier
            The fitted estimator.
        """
        rows = _as_rows(X)
        n, d = rows.shape
        signs = self._signs(y, n)
        setting = self._setting(n, d)
        mechanism = get_mechanism(self.mechanism)
        noise = NoiseSource(secure=self.secure, seed=self.random_state)
        cautions = self._cautions(setting)
        mechanism.check(setting, noise)
        if self.ledger is not None:
            # Entered before the data are read, so that a failing run is paid for as well.
            self.ledger.spend(f"fit of {mechanism.name}, n = {n}", **mechanism.cost(setting))
        fit = mechanism.fit(setting.to_standard(rows), signs, setting=setting, noise=noise)
        for caution in cautions:
            warnings.warn(caution, PrivacyWarning, stacklevel=2)
        self._publish(fit, mechanism, setting, noise, cautions)
        return self

    def _publish(
        self,
        fit: PrivateFit,
        mechanism: Mechanism,
        setting: PublicSetting,
        noise: NoiseSource,
        cautions: tuple[str, ...],
    ) -> None:
        """Keep what was released, and nothing else."""
        self.certificate_ = certify(
            fit,
            mechanism.name,
            setting=setting,
            noise=noise,
            public={"labels": f"negative {self.labels[0]!r}, positive {self.labels[1]!r}"},
            warnings=cautions,
        )
        self.classes_ = np.asarray(self.labels)
        self.n_features_in_ = setting.n_features
        self.coef_ = (fit.direction / setting.unit)[None, :]
        self.intercept_ = np.array([-fit.threshold - float(self.coef_[0] @ setting.middle)])

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the score of each example, after the same clipping as in `fit`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            Scores; larger means more likely positive.
        """
        check_is_fitted(self, "coef_")
        rows = _as_rows(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but PrivateAUCClassifier is expecting "
                f"{self.n_features_in_} features as input."
            )
        lower, upper = self._bounds(rows.shape[1])
        rows = np.where(np.isnan(rows), 0.5 * (lower + upper), rows)
        scores: NDArray[np.float64] = np.clip(rows, lower, upper) @ self.coef_[0]
        scores += self.intercept_[0]
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each example: positive where the score is above 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        labels: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return labels

    def _signs(self, y: ArrayLike, n: int) -> NDArray[np.float64]:
        given = np.asarray(y)
        if given.shape != (n,):
            raise ValueError(
                f"y must hold one label for each of the {n} rows of X, got shape {given.shape}."
            )
        if len(tuple(self.labels)) != 2 or self.labels[0] == self.labels[1]:
            raise ValueError(f"labels must be (negative, positive), got {self.labels!r}.")
        positive = np.asarray(given.astype(object) == self.labels[1], dtype=np.bool_)
        return np.where(positive, 1.0, -1.0)

    def _bounds(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.bounds is None or len(tuple(self.bounds)) != 2:
            raise ValueError(
                f"bounds must be the public pair (lower, upper), got {self.bounds!r}; they "
                "cannot be read from the data without spending privacy."
            )
        lower, upper = (np.asarray(bound, dtype=np.float64) for bound in self.bounds)
        for bound in (lower, upper):
            if bound.ndim > 1 or (bound.ndim == 1 and len(bound) != d):
                raise ValueError(
                    f"each bound must be a number or {d} numbers, got shape {bound.shape}."
                )
        return np.broadcast_to(lower, (d,)), np.broadcast_to(upper, (d,))

    def _setting(self, n: int, d: int) -> PublicSetting:
        lower, upper = self._bounds(d)
        delta = self.delta
        if delta is None:
            # n = 1 would give no valid delta; there is nothing to learn from it anyway.
            delta = min(1.0 / (10.0 * n), n**-1.5)
        return PublicSetting.make(
            n,
            lower=lower,
            upper=upper,
            epsilon=self.epsilon,
            delta=delta,
            levels=self.levels,
            neighbours=self.neighbours,
            centre=self.public_centre,
        )

    def _cautions(self, setting: PublicSetting) -> tuple[str, ...]:
        cautions = []
        if self.random_state is not None:
            cautions.append(
                "random_state makes the noise reproducible: this model is not private. Leave it "
                "at None for private data."
            )
        if setting.delta >= 1.0 / setting.n_examples:
            cautions.append(
                f"delta = {setting.delta:g} is at least 1/n = {1.0 / setting.n_examples:g}, which "
                "would allow publishing one random record; use 1/(10 n) or less."
            )
        return tuple(cautions)


register_storable(PrivateAUCClassifier)


def _as_rows(X: ArrayLike) -> NDArray[np.float64]:
    if hasattr(X, "toarray"):
        X = X.toarray()
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(f"X must be a table of examples by features, got shape {rows.shape}.")
    return rows
