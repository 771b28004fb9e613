# SPDX-License-Identifier: BSD-3-Clause
"""What private estimators share: public arguments, the budget, a file that stands by its promise.

`CertifiedMixin` is about the certificate and the model file, `PrivateMixin` about one fit of a
table: it reads the rows, pays, finds or narrows bounds, and lets the mechanism learn. A fit changes
the estimator in one step at its end, so a fit that fails leaves the one before as it was.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.storage import Storable
from pairlearn.features import FeatureMap, Identity
from pairlearn.models.parts import encode
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.privacy.accounting.certificate import (
    Certificate,
    Release,
    cautions_about,
    digest_of,
)
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.bounds import PrivateBounds, find_bounds, narrowed
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting, certify
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.public_maps import map_publicly, mapped_setting
from pairlearn.privacy.records import read_persons, read_table
from pairlearn.privacy.release import paid_noise
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: Fields of provenance that a private model file may hold: no field measured on data.
_PUBLIC_ORIGIN = ("author", "contact", "created", "data", "license", "program", "purpose", "schema")


class CertifiedMixin(Storable):
    """A private estimator with its certificate.

    It has the parameters `neighbours`, `n_examples`, `random_state` and `ledger`.
    """

    random_state: Any
    neighbours: str
    n_examples: int | None
    ledger: PrivacyLedger | None
    certificate_: Certificate
    #: The arguments that the certificate was made with.
    _certified: dict[str, Any]

    # A seed would reveal the noise, and a ledger has its own file.
    _not_stored: ClassVar[tuple[str, ...]] = ("random_state", "ledger")

    def _publish(self, names: NDArray[Any] | None = None, **fitted: Any) -> None:
        """Replace all fitted attributes in one step; `names` are those of the columns."""
        model = object.__new__(type(self))
        model.__dict__ = {k: v for k, v in vars(self).items() if k[0] == "_" or not k.endswith("_")}
        model.__dict__ |= {**fitted, "_certified": copy.deepcopy(self._public_arguments())}
        if names is not None:
            model.__dict__["feature_names_in_"] = np.array(names, dtype=object)
        model.certificate_ = replace(model.certificate_, digest=digest_of(model._pack()))
        self.__dict__ = model.__dict__

    def _public_number(self, n_rows: int) -> int:
        """Return the public number of examples that scales a release."""
        if self.n_examples is None:
            if self.neighbours == "add_remove":
                raise ValueError(
                    'neighbours="add_remove" protects the number of rows, so it cannot be read '
                    "from the data; give n_examples, the largest number that you expect."
                )
            return n_rows
        n = check_count("n_examples", self.n_examples)
        if self.neighbours == "replace" and n != n_rows:
            raise ValueError(
                'neighbours="replace" takes the number of rows (of persons, with groups) as '
                f"public, but n_examples={n} differs from it; leave it out."
            )
        if n_rows > n:
            raise ValueError(
                f"there are more rows than n_examples={n} (persons, with groups), which the "
                "guarantee covers; give a larger public number."
            )
        return n

    def _pay(
        self, purpose: str, n: int, delta: float, **cost: Any
    ) -> tuple[NoiseSource, dict[str, Any]]:
        """Warn, pay, and return the noise, with the warnings and the unit for the certificate."""
        warnings = cautions_about(delta, max(n, 1), seeded=self.random_state is not None)
        noise = paid_noise(
            self.ledger, purpose, seed=self.random_state, cautions=warnings,
            neighbours=self.neighbours, **cost,
        )  # fmt: skip
        return noise, {"warnings": warnings, "unit": cost["unit"]}

    def _public_arguments(self) -> dict[str, Any]:
        """Return the arguments that the file holds, in a form that it can hold."""
        return super()._stored_parameters()

    def _stored_parameters(self) -> dict[str, Any]:
        """Return the parameters that the file holds; refuse others than those of the fit."""
        now, then = self._public_arguments(), self._certified
        changed = [name for name in now if encode(now[name], name) != encode(then[name], name)]
        if changed:
            raise ModelFileError(
                f"{', '.join(changed)} changed after the fit, but the certificate is about the "
                "first values. Set them back, or fit again."
            )
        return now

    @classmethod
    def from_record(cls, record: ModelRecord) -> Self:
        """Return the fitted model of a record, as `Storable.from_record` does."""
        model = super().from_record(record)
        model._certified = copy.deepcopy(model._public_arguments())
        model._check_digest()
        return model

    def to_record(self, provenance: Mapping[str, Any] | None = None) -> ModelRecord:
        """Return the fitted model as `Storable.to_record` does, if its certificate covers it."""
        check_is_fitted(self, "certificate_")
        self._check_digest()
        return super().to_record(provenance)

    def _check_digest(self) -> None:
        if digest_of(self._pack()) != self.certificate_.digest:
            raise ModelFileError(
                "the numbers of this model are not those that its certificate is about, so nothing "
                "is promised for them; fit again."
            )

    def _certificate_of(self, record: ModelRecord, mechanism: str = "") -> Certificate:
        """Return the certificate in a model file; it must name the mechanism, if one is given."""
        if record.certificate is None:
            raise ModelFileError("a private model needs a certificate, but this file has none.")
        try:
            found = Certificate.from_dict(record.certificate)
        except (ValueError, TypeError, KeyError) as error:
            raise ModelFileError(f"its certificate cannot be read: {str(error)[:300]}") from None
        if mechanism and found.mechanism != mechanism:
            raise ModelFileError(
                f"this model is released by {mechanism!r}, but its certificate names "
                f"{found.mechanism[:60]!r}."
            )
        return found

    def _provenance(self, given: dict[str, Any]) -> dict[str, Any]:
        # A value measured on private data (an AUC, a fingerprint) would be a release without noise.
        measured = sorted(str(name) for name in given if name not in _PUBLIC_ORIGIN)
        if measured:
            raise ModelFileError(
                f"the file of a private model does not take {', '.join(measured)}: a value "
                "measured on private data would be a release without noise; it takes "
                f"{', '.join(_PUBLIC_ORIGIN)}."
            )
        units = "persons" if self.certificate_.unit == "person" else "rows"
        known = "seen" if self.certificate_.neighbours == "replace" else "at_most"
        return super()._provenance({f"{units}_{known}": self.certificate_.n_examples} | given)


class PrivateMixin(CertifiedMixin):
    """The part of a private estimator that does not depend on what it learns.

    The estimator has the parameters `epsilon`, `delta`, `bounds`, `levels`, `neighbours`,
    `n_examples`, `random_state` and `ledger`, and the fitted attributes `certificate_`, `bounds_`
    and `n_features_in_`.
    """

    epsilon: float
    delta: float | None
    bounds: tuple[ArrayLike, ArrayLike] | PrivateBounds | str | None
    levels: ArrayLike | None
    bounds_: Vector
    n_features_in_: int
    _takes_sparse = True
    #: A typical value of each feature, for mechanisms that use it.
    public_centre: ArrayLike | None = None
    #: The feature map, for estimators that take one.
    features: Any = "linear"
    features_: FeatureMap

    # A file holds the releases, the public arguments and the certificate.
    _not_stored = (*CertifiedMixin._not_stored, "bounds", "mechanism")
    #: The only mechanism that the certificate in a file may name, if there is one.
    _released_by: ClassVar[str] = ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
        self.certificate_ = self._certificate_of(record, self._released_by)
        self.features_ = Identity.of(self.bounds_.shape[1])
        self.bounds = (self.bounds_[0].copy(), self.bounds_[1].copy())

    def _learn(
        self, mechanism: Mechanism, rows: Vector, y: Vector, groups: Any, public: Mapping[str, str]
    ) -> tuple[PrivateFit, PublicSetting, dict[str, Any]]:
        """Check the public arguments, pay, and learn; nothing of the estimator is changed.

        Returns the fit, the setting it was made in, and the fitted attributes that all private
        estimators have, for `_publish`. `public` are further facts for the certificate.
        """
        persons, n_units, unit = None, len(rows), "example"
        if groups is not None:
            if not mechanism.offers_persons:
                raise ValueError(
                    f"{mechanism.name} protects single rows and takes no groups; use the "
                    "mechanism 'statistics' or 'noisy_sgd', or combine the rows of each person "
                    "into one."
                )
            persons, unit = read_persons(groups, len(rows)), "person"
            # Rows without an id count nowhere.
            rows, y, persons = rows[persons >= 0], y[persons >= 0], persons[persons >= 0]
            n_units = int(persons.max(initial=-1)) + 1
        setting = self._setting(self._public_number(n_units), rows.shape[1])
        search, within = self._search(), setting
        if search is not None:
            if search.lower is None and setting.levels.any():
                raise ValueError(
                    "levels says that some features are codes, and a code needs exact bounds; give "
                    "PrivateBounds(lower, upper) with the exact bounds of the codes."
                )
            # Each part stays a little below its share, so that rounding cannot exceed the budget.
            left = setting.mu * math.sqrt(1.0 - search.share) * (1.0 - 1e-12)
            within = replace(setting, budget=left)
        # Refuse bad arguments before paying.
        mechanism.check(mapped_setting(map_publicly(self.features, within), within))
        n, what = setting.n_examples, "n" if groups is None else "persons"
        noise, facts = self._pay(
            f"fit of {mechanism.name}, {what} = {n}", n, setting.delta, mu=setting.mu, unit=unit
        )
        before: list[Release] = []
        if search is not None:
            within, before = find_bounds(rows, search, setting=within, noise=noise, persons=persons)
        elif mechanism.narrow_bounds and isinstance(self.features, str):
            # Not under a map that was made for the given bounds.
            within, before = narrowed(setting, rows, noise, persons)
        features = map_publicly(self.features, within)
        mapped = mapped_setting(features, within)
        if mapped is not within:
            rows = features.transform(within.clipped(rows))
        options = {} if persons is None else {"persons": persons}
        fit = mechanism.fit(mapped.to_standard(rows), y, setting=mapped, noise=noise, **options)
        fit = replace(fit, releases=(*before, *fit.releases))
        facts["public"] = {**self._further_facts(within, features), **public}
        return fit, within, self._fitted(fit, mechanism.name, within, features, noise, **facts)

    def _fitted(
        self, fit: PrivateFit, mechanism: str, setting: PublicSetting, features: FeatureMap,
        noise: NoiseSource, **facts: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the fitted attributes of all private estimators of a table."""
        return {
            "certificate_": certify(fit, mechanism, setting=setting, noise=noise, **facts),
            "bounds_": np.stack([setting.lower, setting.upper]),
            "features_": features,
            "n_features_in_": setting.n_features,
        }

    def _search(self) -> PrivateBounds | None:
        """Return how to find bounds; None if they are public."""
        if isinstance(self.bounds, PrivateBounds):
            return self.bounds
        if not isinstance(self.bounds, str):
            return None
        if self.bounds != "private":
            raise ValueError(
                f'bounds must be (lower, upper), "private" or a PrivateBounds, got {self.bounds!r}.'
            )
        return PrivateBounds()

    def _further_facts(self, setting: PublicSetting, features: FeatureMap) -> dict[str, str]:
        """Return facts that override or extend the usual ones in the certificate."""
        facts, search = {}, self._search()
        if not isinstance(features, Identity):
            facts["features"] = (
                f"{features.n_outputs} functions of the features ({type(features).__name__}), made "
                "of public numbers and of none of the examples"
            )
        if search is not None:
            facts["bounds"] = (
                f"found by {search.levels} levels of bisection, released with {search.share:g} "
                "of mu^2, inside a range given by the caller or by the library"
            )
        elif setting.budget is not None:
            share = 1.0 - (setting.budget / mu_of(setting.epsilon, setting.delta)) ** 2
            facts["bounds"] = (
                "given by the caller, and narrowed where counts in bins, released with "
                f"{share:.3g} of mu^2, found them far too wide"
            )
        return facts

    def _table(self, X: Any) -> Vector:
        """Return examples as numbers, read cell by cell (`privacy.records`).

        The names of the columns are as public as their number.
        """
        return read_table(X, n_features=self.public_width())

    def public_width(self) -> int | None:
        """Return the number of features if the public arguments determine it, else None."""
        search = self._search()
        own = self.bounds if np.iterable(self.bounds) else ()
        ends: Any = own if search is None else (search.lower, search.upper)
        public = [*ends, self.levels, self.public_centre]
        widths = {len(np.asarray(fact)) for fact in public if np.ndim(fact) == 1}
        return widths.pop() if len(widths) == 1 else None

    def public_bounds(self, d: int) -> tuple[Vector, Vector]:
        """Return the public bounds of d features, or the public range of private bounds."""
        search = self._search()
        if search is not None:
            return search.range_of(d)
        pair: Any = self.bounds
        if not np.iterable(pair) or len(tuple(pair)) != 2:
            raise ValueError(
                f"bounds must be the public pair (lower, upper), got {self.bounds!r}; they "
                'cannot be read from the data without spending privacy (bounds="private").'
            )
        lower, upper = (np.asarray(bound, dtype=np.float64) for bound in pair)
        for bound in (lower, upper):
            if bound.ndim > 1 or (bound.ndim == 1 and len(bound) != d):
                raise ValueError(
                    f"each bound must be a number or {d} numbers, got shape {bound.shape}."
                )
        return np.broadcast_to(lower, (d,)), np.broadcast_to(upper, (d,))

    def _within_bounds(self, X: ArrayLike) -> Vector:
        """Return examples after the same clipping as in `fit`, NaN at the middle."""
        rows = read_table(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        lower, upper = self.bounds_
        return np.clip(np.where(np.isnan(rows), 0.5 * lower + 0.5 * upper, rows), lower, upper)

    def _setting(self, n: int, d: int) -> PublicSetting:
        """Return the public setting of n examples with d features."""
        if n == 0:
            raise ValueError("X has no rows, and a private fit needs one or more; give some.")
        lower, upper = self.public_bounds(d)
        return PublicSetting.make(
            n,
            lower=lower,
            upper=upper,
            epsilon=self.epsilon,
            delta=default_delta(n) if self.delta is None else self.delta,
            levels=self.levels,
            neighbours=self.neighbours,
            centre=self.public_centre,
        )


def default_delta(n: int) -> float:
    """Return the smaller of 1/(10 n) and n^(-3/2)."""
    return min(1.0 / (10.0 * n), 1.0 / (n * math.sqrt(n)))
