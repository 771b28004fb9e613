# SPDX-License-Identifier: BSD-3-Clause
"""The mixin of private estimators: public arguments, clipping, the budget and the model file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.private.certified import CertifiedMixin
from pairlearn.estimators.shared.examples import forget_origin
from pairlearn.features import FeatureMap, Identity
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting, certify
from pairlearn.privacy.narrowing import ask_table, narrowed
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.public_maps import map_publicly, mapped_setting
from pairlearn.privacy.quartiles import PrivateBounds, find_bounds
from pairlearn.privacy.records import read_persons, read_table
from pairlearn.typing import Vector


def public_facts(model: Any, setting: PublicSetting, mechanism: str) -> dict[str, Any]:
    """Return the public facts of a stream as plain values, to be fixed at its start."""
    return {
        "n_examples": setting.n_examples,
        "epsilon": setting.epsilon,
        "delta": setting.delta,
        "lower": setting.lower.tolist(),
        "upper": setting.upper.tolist(),
        "levels": setting.levels.tolist(),
        "centre": None if setting.centre is None else setting.centre.tolist(),
        "labels": [repr(label) for label in model.labels],
        "neighbours": setting.neighbours,
        "secure": bool(model.secure),
        "mechanism": mechanism,
    }


def check_unchanged(frozen: dict[str, Any], public: dict[str, Any], owner: str) -> None:
    """Refuse public arguments that changed after a stream had begun."""
    changed = [name for name, value in frozen.items() if value != public[name]]
    if changed:
        raise ValueError(
            f"{', '.join(changed)} changed after the stream had begun, but its steps and noise "
            f"depend on the first values. Set them back, or begin a new {owner}."
        )


class PrivateMixin(CertifiedMixin):
    """The part of a private estimator that does not depend on what it learns.

    The estimator has the parameters `epsilon`, `delta`, `bounds`, `levels`, `neighbours`,
    `n_examples`, `secure`, `random_state` and `ledger`, and the fitted attributes `certificate_`
    and `n_features_in_`.
    """

    epsilon: float
    delta: float | None
    bounds: tuple[ArrayLike, ArrayLike] | PrivateBounds | str | None
    levels: ArrayLike | None
    neighbours: str
    n_examples: int | None
    secure: bool
    ledger: PrivacyLedger | None
    bounds_: Vector
    n_features_in_: int
    _takes_sparse = True
    #: A typical value of each feature, for mechanisms that use it.
    public_centre: ArrayLike | None = None
    #: The feature map, for estimators that take one.
    features: Any = "linear"
    features_: FeatureMap
    #: Whether examples come in chunks and are seen once.
    _is_stream: ClassVar[bool] = False

    # A file holds the releases, the public arguments and the certificate.
    _not_stored = (*CertifiedMixin._not_stored, "bounds")

    def _learn(
        self, mechanism: Mechanism, rows: Vector, y: Vector, groups: Any = None
    ) -> tuple[PrivateFit, PublicSetting, NoiseSource, tuple[str, ...]]:
        """Check the public arguments, pay, and learn; return the parts of the certificate."""
        options: dict[str, Any] = {}
        n_units = len(rows)
        if groups is not None:
            if not mechanism.offers_persons:
                raise ValueError(
                    f"{mechanism.name} protects single rows and takes no groups; use the "
                    "mechanism 'statistics' or 'noisy_sgd', or combine the rows of each person "
                    "into one."
                )
            options["persons"] = read_persons(groups, len(rows))
            n_units = int(options["persons"].max(initial=-1)) + 1
        setting = self._setting(self._public_number(n_units), rows.shape[1])
        noise = NoiseSource.made_from(self.random_state, secure=self.secure)
        cautions = self._cautions(setting.delta, setting.n_examples)
        search = self._search()
        within = setting
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
        mechanism.check(mapped_setting(map_publicly(self.features, within), within), noise)
        if self.ledger is not None:
            # Pay before reading the data, so that a failing run is paid for as well.
            unit, what = ("person", "persons") if options else ("example", "n")
            self.ledger.spend(
                f"fit of {mechanism.name}, {what} = {setting.n_examples}",
                **mechanism.cost(setting),
                neighbours=setting.neighbours,
                unit=unit,
            )
        releases: list[Release] = []
        if search is not None:
            within, releases = self._searched(rows, search, within, noise, **options)
        elif self._narrows(mechanism):
            within, releases = narrowed(setting, ask_table(rows, noise, **options))
        self.features_ = map_publicly(self.features, within)
        mapped = mapped_setting(self.features_, within)
        if mapped is not within:
            rows = self.features_.transform(within.clipped(rows))
        fit = mechanism.fit(mapped.to_standard(rows), y, setting=mapped, noise=noise, **options)
        if releases:
            fit = fit.after(releases)
        self.bounds_ = np.stack([within.lower, within.upper])
        return fit, within, noise, cautions

    def _certify(
        self,
        fit: PrivateFit,
        mechanism: Mechanism,
        setting: PublicSetting,
        noise: NoiseSource,
        cautions: tuple[str, ...],
        facts: Mapping[str, str],
        unit: str = "example",
    ) -> None:
        """Warn of the cautions, and store the certificate with the arguments that it is about."""
        self._warn(cautions)
        self._note_arguments()
        forget_origin(self)
        self.certificate_ = certify(
            fit,
            mechanism.name,
            setting=setting,
            noise=noise,
            public=self._further_facts(setting) | dict(facts),
            warnings=cautions,
            unit=unit,
        )
        self.n_features_in_ = setting.n_features

    def _narrows(self, mechanism: Mechanism) -> bool:
        """Return whether public bounds may be narrowed: not under a map made for given bounds."""
        return mechanism.narrows and isinstance(self.features, str)

    def _search(self) -> PrivateBounds | None:
        """Return how to find bounds; None if they are public."""
        if not isinstance(self.bounds, (str, PrivateBounds)):
            return None
        if isinstance(self.bounds, str) and self.bounds != "private":
            raise ValueError(
                f'bounds must be (lower, upper), "private" or a PrivateBounds, got {self.bounds!r}.'
            )
        if self._is_stream:
            raise ValueError(
                "a stream sees each example once, so it cannot search for bounds first; give "
                "public bounds, or use PrivateAUCClassifier."
            )
        return PrivateBounds() if isinstance(self.bounds, str) else self.bounds

    def _searched(
        self,
        rows: Vector,
        search: PrivateBounds,
        setting: PublicSetting,
        noise: NoiseSource,
        persons: NDArray[np.int64] | None = None,
    ) -> tuple[PublicSetting, list[Release]]:
        """Return the setting with the bounds found, and the releases that found them."""
        lower, upper, releases = find_bounds(
            rows,
            search,
            # The bounds of a code are public, so only continuous features are searched.
            searched=setting.levels == 0,
            mu=mu_of(setting.epsilon, setting.delta) * math.sqrt(search.share) * (1.0 - 1e-12),
            neighbours=setting.neighbours,
            noise=noise,
            n_examples=setting.n_examples,
            persons=persons,
        )
        return setting.within(lower, upper, budget=setting.mu), releases

    def _further_facts(self, setting: PublicSetting) -> dict[str, str]:
        """Return facts that override or extend the usual ones in the certificate."""
        facts = {}
        if not isinstance(self.features_, Identity):
            facts["features"] = (
                f"{self.features_.n_outputs} functions of the features "
                f"({type(self.features_).__name__}), made of public numbers and of none of the "
                "examples"
            )
        search = self._search()
        if search is None:
            if setting.budget is not None:
                share = 1.0 - (setting.budget / mu_of(setting.epsilon, setting.delta)) ** 2
                facts["bounds"] = (
                    "given by the caller, and narrowed where counts in bins, released with "
                    f"{share:.3g} of mu^2, found them far too wide"
                )
            return facts
        return facts | {
            "bounds": f"found by {search.levels} levels of bisection, released with "
            f"{search.share:g} of mu^2, inside a range given by the caller or by the library"
        }

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
        given = [*ends, self.levels, self.public_centre]
        widths = {len(np.asarray(fact)) for fact in given if np.ndim(fact) == 1}
        return widths.pop() if len(widths) == 1 else None

    def public_bounds(self, d: int) -> tuple[Vector, Vector]:
        """Return the public bounds of d features, or the public range of private bounds."""
        search = self._search()
        if search is not None:
            return search.range_of(d)
        given: Any = self.bounds
        if not np.iterable(given) or len(tuple(given)) != 2:
            raise ValueError(
                f"bounds must be the public pair (lower, upper), got {self.bounds!r}; they "
                'cannot be read from the data without spending privacy (bounds="private").'
            )
        lower, upper = (np.asarray(bound, dtype=np.float64) for bound in given)
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
        delta = self.delta
        if delta is None:
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
