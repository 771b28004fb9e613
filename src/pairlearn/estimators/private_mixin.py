# SPDX-License-Identifier: BSD-3-Clause
"""What private estimators share: public arguments, clipping, the budget, and the model file."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.storage import Storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.validation import real_array

__all__ = ["PrivacyWarning", "PrivateMixin", "as_labels", "as_table"]

Vector = NDArray[np.float64]


class PrivacyWarning(UserWarning):
    """The privacy promise is weaker than a reader might think."""


def as_table(X: Any) -> Vector:
    """Return examples as a dense table, NaN and infinity included."""
    if hasattr(X, "toarray"):
        X = X.toarray()
    rows = np.asarray(real_array("X", X), dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] == 0 or rows.shape[1] == 0:
        raise ValueError(f"X must be a table of examples by features, got shape {rows.shape}.")
    return rows


def as_labels(y: ArrayLike, n: int) -> NDArray[np.object_]:
    """Return labels as objects, to be compared with public ones."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(
            f"y must hold one label for each of the {n} rows of X, got shape {labels.shape}."
        )
    return labels.astype(object)


class PrivateMixin(Storable):
    """Adds to an estimator whatever does not depend on what it learns.

    It has the parameters `epsilon`, `delta`, `bounds`, `levels`, `neighbours`, `secure`,
    `random_state` and `ledger`, and the fitted attributes `certificate_` and `n_features_in_`.
    """

    epsilon: float
    delta: float | None
    bounds: tuple[ArrayLike, ArrayLike] | None
    levels: ArrayLike | None
    neighbours: str
    secure: bool
    random_state: Any
    ledger: PrivacyLedger | None
    certificate_: Certificate
    n_features_in_: int
    #: A typical value of each feature, for mechanisms that have a use for it.
    public_centre: ArrayLike | None = None

    # A file holds what was released, what is public, and the certificate. A seed would give the
    # noise away, and a ledger is a file of its own.
    _not_stored: ClassVar[tuple[str, ...]] = ("random_state", "ledger", "bounds")

    def _learn(
        self, mechanism: Mechanism, rows: Vector, y: Vector
    ) -> tuple[PrivateFit, PublicSetting, NoiseSource, tuple[str, ...]]:
        """Check what is public, pay, and learn; return what a certificate is made of."""
        setting = self._setting(*rows.shape)
        noise = NoiseSource(secure=self.secure, seed=self.random_state)
        cautions = self._cautions(setting)
        mechanism.check(setting, noise)
        if self.ledger is not None:
            # Entered before the data are read, so that a failing run is paid for as well.
            name = f"fit of {mechanism.name}, n = {setting.n_examples}"
            self.ledger.spend(name, **mechanism.cost(setting))
        fit = mechanism.fit(setting.to_standard(rows), y, setting=setting, noise=noise)
        return fit, setting, noise, cautions

    def _warn(self, cautions: tuple[str, ...]) -> None:
        for caution in cautions:
            warnings.warn(caution, PrivacyWarning, stacklevel=3)

    def public_bounds(self, d: int) -> tuple[Vector, Vector]:
        """Return the public bounds of d features, which rows are clipped to."""
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

    def _within_bounds(self, X: ArrayLike) -> Vector:
        """Return examples after the same clipping as in `fit`, NaN at the middle."""
        rows = as_table(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        lower, upper = self.public_bounds(rows.shape[1])
        return np.clip(np.where(np.isnan(rows), 0.5 * (lower + upper), rows), lower, upper)

    def _setting(self, n: int, d: int) -> PublicSetting:
        lower, upper = self.public_bounds(d)
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

    def _certificate_of(self, record: ModelRecord) -> Certificate:
        """Return the certificate in a model file."""
        if record.certificate is None:
            raise ModelFileError("a private model comes with a certificate; this file has none.")
        try:
            return Certificate.from_dict(record.certificate)
        except (ValueError, TypeError, KeyError) as error:
            raise ModelFileError(f"its certificate cannot be read: {error}") from None

    def _provenance(self, given: dict[str, Any]) -> dict[str, Any]:
        # The number of rows is public in the certificate; a fingerprint would not be.
        if "data_fingerprint" in given:
            raise ModelFileError(
                "a fingerprint of private data would be a release of its own; leave it out."
            )
        return super()._provenance(self._rows_known() | given)

    def _rows_known(self) -> dict[str, Any]:
        return {"rows_seen": self.certificate_.n_examples}
