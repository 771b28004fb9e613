# SPDX-License-Identifier: BSD-3-Clause
"""The base class of private learners, their input and their output.

A `Mechanism` gets examples in standard coordinates, labels as signs (of a metric as numbers, of a
regression as targets), and a `PublicSetting`. Its choices (radii, step sizes, budget shares) may
depend on the setting and on its own earlier noisy releases, never on the raw data. It returns a
`PrivateFit`; `certify` makes the certificate from it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.privacy.accounting.certificate import NEIGHBOURS, Certificate, Release
from pairlearn.privacy.accounting.gaussian import check_epsilon, compose, mu_of
from pairlearn.privacy.noise import NoiseSource
from pairlearn.register import Part
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_positive

#: Factor on every proved sensitivity that absorbs floating-point rounding.
relative_slack = 1.0 + 1e-9

#: A public range is assumed to be so many standard deviations wide.
STANDARD_RANGE = 6.0
#: The least width of a public range.
_NARROWEST = 1e-300
#: Constants of a mechanism lie between this and its inverse, so that no product overflows.
_SMALLEST_CONSTANT = 1e-60


def check_constant(name: str, value: float, *, allow_infinite: bool = False) -> float:
    """Return a constant of a mechanism; raise if sums of examples could overflow beside it.

    Such an error would depend on the data, and come after the budget is paid.

    >>> check_constant("clip", 1e-200)
    Traceback (most recent call last):
        ...
    ValueError: clip must lie between 1e-60 and 1e+60, got 1e-200; ...
    """
    found = check_positive(name, value, allow_infinite=allow_infinite)
    if not (_SMALLEST_CONSTANT <= found <= 1.0 / _SMALLEST_CONSTANT or math.isinf(found)):
        raise ValueError(
            f"{name} must lie between {_SMALLEST_CONSTANT:g} and {1.0 / _SMALLEST_CONSTANT:g}, got "
            f"{value!r}; beyond that sums overflow."
        )
    return found


@lru_cache(maxsize=2)
def upper_triangle(d: int) -> tuple[Any, Any, Vector]:
    """Return the upper triangle of a d x d matrix, and the factors that keep Frobenius lengths."""
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0))


def to_upper(M: Vector) -> Vector:
    """Return a symmetric matrix as a vector of the same length in the Frobenius norm."""
    rows, columns, isometry = upper_triangle(len(M))
    upper: Vector = M[rows, columns] * isometry
    return upper


def from_upper(v: Vector) -> Vector:
    """Return the symmetric matrix of a vector; the inverse of `to_upper`."""
    d = (math.isqrt(8 * len(v) + 1) - 1) // 2
    rows, columns, isometry = upper_triangle(d)
    M = np.empty((d, d))
    M[rows, columns] = M[columns, rows] = v / isometry
    return M


@dataclass(frozen=True)
class PublicSetting:
    """Everything that is known without looking at the data.

    Parameters
    ----------
    n_examples : int
        Number of examples.
    lower, upper : ndarray
        Public bounds of each feature; values outside are clipped.
    levels : ndarray of int
        0 for a continuous feature, k for a code of k equally spaced levels.
    epsilon, delta : float
        The guarantee to keep.
    neighbours : str
        "replace" or "add_remove".
    centre : ndarray, optional
        Public guess of a typical value of each feature; the middle of the range by default.
    budget : float, optional
        The Gaussian-DP parameter left to the learner if an earlier release spent a part of it; by
        default all of it.
    given : PublicSetting, optional
        The setting as the caller gave it, if bounds were narrowed since.

    Examples
    --------
    >>> setting = PublicSetting.make(100, lower=[0, 0], upper=[1, 10], epsilon=1, delta=1e-3)
    >>> setting.to_standard([[0.5, np.nan], [9.0, 10.0]])
    array([[0., 0.],
           [3., 3.]])
    """

    n_examples: int
    lower: Vector
    upper: Vector
    levels: NDArray[np.int64]
    epsilon: float
    delta: float
    neighbours: str = "replace"
    centre: Vector | None = None
    budget: float | None = None
    given: PublicSetting | None = None

    @classmethod
    def make(
        cls, n_examples: int, *, lower: ArrayLike, upper: ArrayLike, epsilon: float, delta: float,
        levels: ArrayLike | None = None, neighbours: str = "replace",
        centre: ArrayLike | None = None,
    ) -> PublicSetting:  # fmt: skip
        """Check and collect public facts; errors depend on these facts only.

        The parameters are those of the class, as array-likes; features are continuous by default.
        """
        low = np.atleast_1d(np.asarray(lower, dtype=np.float64))
        high = np.atleast_1d(np.asarray(upper, dtype=np.float64))
        if low.shape != high.shape or low.ndim != 1:
            raise ValueError(
                f"bounds must be two vectors of one length, got shapes {low.shape} and "
                f"{high.shape}; give one lower and one upper bound for each feature."
            )
        # Between closer bounds a unit is not exact, and its inverse overflows.
        with np.errstate(invalid="ignore"):
            apart = 0.5 * high - 0.5 * low >= 0.5 * _NARROWEST
        wrong = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & apart))
        if len(wrong):
            k = int(wrong[0])
            raise ValueError(
                "each feature needs finite public bounds with lower < upper, at least "
                f"{_NARROWEST:g} apart, got ({low[k]:g}, {high[k]:g}) for feature {k}; features "
                "without known bounds cannot be used privately."
            )
        kinds = np.zeros(len(low), dtype=np.int64)
        if levels is not None:
            given = np.asarray(levels)
            whole = given.dtype.kind in "iuf" and (given == np.floor(given)).all()
            if not whole or given.shape != low.shape or (given < 0).any() or (given == 1).any():
                raise ValueError(
                    "levels must hold, for each feature, 0 (continuous) or the number of levels "
                    f"(2 or more), a whole number, got {levels!r}."
                )
            kinds = given.astype(np.int64)
        if neighbours not in NEIGHBOURS:
            names = ", ".join(repr(name) for name in NEIGHBOURS)
            raise ValueError(f"neighbours must be one of {names}, got {neighbours!r}.")
        point = None
        if centre is not None:
            point = np.clip(np.asarray(centre, dtype=np.float64), low, high)
            if point.shape != low.shape or not np.isfinite(point).all():
                raise ValueError("the public centre must hold one finite value for each feature.")
        return cls(
            check_count("n_examples", n_examples), low, high, kinds, check_epsilon(epsilon),
            check_fraction("delta", delta), neighbours, point,
        )  # fmt: skip

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.lower)

    @property
    def mu(self) -> float:
        """The Gaussian-DP budget: that of (epsilon, delta), or the rest of it."""
        return mu_of(self.epsilon, self.delta) if self.budget is None else self.budget

    @property
    def middle(self) -> Vector:
        """The middle of each feature's range."""
        return 0.5 * self.lower + 0.5 * self.upper

    @property
    def unit(self) -> Vector:
        """One standard unit of each feature: a guess of its standard deviation.

        For a continuous feature it is a third of the half-range. For a code of k levels it is the
        deviation of a uniform choice among them, sqrt((k + 1) / (3 (k - 1))) half-ranges.
        """
        k = np.maximum(self.levels, 2)
        coded = np.sqrt((k + 1.0) / (3.0 * (k - 1.0)))
        share = np.where(self.levels > 0, coded, 2.0 / STANDARD_RANGE)
        unit: Vector = (0.5 * self.upper - 0.5 * self.lower) * share
        return unit

    @property
    def standard_centre(self) -> Vector:
        """The public centre in standard coordinates."""
        if self.centre is None:
            return np.zeros(self.n_features)
        start: Vector = (self.centre - self.middle) / self.unit
        return start

    def from_public_centre(self, point: Vector) -> Vector:
        """Return how far a point in standard coordinates is from the public centre.

        Where narrowed bounds share no end with those that the caller gave, centre and unit are of
        the latter: the middle of the narrow ones lies among the examples, wherever that is.
        """
        near: Vector = point - self.standard_centre
        given = self.given
        if given is None:
            return near
        far = (self.middle + self.unit * point - given.middle) / given.unit - given.standard_centre
        share_an_end = (self.lower <= given.lower) | (self.upper >= given.upper)
        return np.where(share_an_end, near, far)

    def within(self, lower: Vector, upper: Vector, *, budget: float) -> PublicSetting:
        """Return the same setting with released bounds and the budget that they left."""
        centre = None if self.centre is None else np.clip(self.centre, lower, upper)
        return replace(self, lower=lower, upper=upper, centre=centre, budget=budget)

    def clipped(self, X: ArrayLike) -> Vector:
        """Clip examples to the bounds, with NaN at the middle; each row by itself."""
        rows = np.asarray(X, dtype=np.float64)
        return np.clip(np.where(np.isnan(rows), self.middle, rows), self.lower, self.upper)

    def to_standard(self, X: ArrayLike) -> Vector:
        """Return examples in standard coordinates: NaN to the middle, clipped to the bounds.

        Each row of the result, (x - middle) / unit, is computed from that row alone.
        """
        standard: Vector = (self.clipped(X) - self.middle) / self.unit
        return standard


@dataclass(frozen=True)
class PrivateFit:
    """The result of a mechanism: everything it releases.

    Parameters
    ----------
    direction : ndarray
        The linear score in standard coordinates, or the rows of a metric's matrix W.
    releases : tuple of Release
        Every noisy quantity taken from the data; each may depend on earlier ones.
    threshold : float, optional
        Score above which an example counts as positive, or squared distance above which a pair
        counts as far; None if the releases do not determine it.
    log_odds : (float, float), optional
        Slope and offset of the log odds of the positive label as a function of the score minus
        the threshold; None if the releases do not determine them.

    Examples
    --------
    >>> PrivateFit(np.ones(2), (Release("a", 2, 3.0, 1.0), Release("b", 2, 4.0, 1.0))).mu
    5.0
    """

    direction: Vector
    releases: tuple[Release, ...]
    threshold: float | None = None
    log_odds: tuple[float, float] | None = None

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of all releases together."""
        return compose(release.mu for release in self.releases)


@dataclass(frozen=True)
class Mechanism(Part, ABC):
    """Base class of private learners of a linear score, a metric or a regression.

    A subclass sets `name`, states its sensitivity with a proof, and implements `fit`. It must
    not raise because of the data, must work on one class and on constant columns, must take
    noise from the given source only, and must stay within ``setting.mu``.
    """

    name: ClassVar[str]

    #: What `PrivateFit.direction` holds: a linear "score", the matrix of a "metric", and so on.
    learns: ClassVar[str] = "score"
    #: The neighbouring relations for which the sensitivity is proved.
    relations: ClassVar[tuple[str, ...]] = ("replace", "add_remove")
    #: Why the other relations have no proof.
    missing_relation: ClassVar[str] = ""
    #: Whether `fit` takes `persons`, to protect all rows of a person together.
    offers_persons: ClassVar[bool] = False
    #: Whether public bounds that are far too wide are narrowed first, at a price.
    narrow_bounds = False

    @abstractmethod
    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource
    ) -> PrivateFit:
        """Learn privately.

        Parameters
        ----------
        Z : ndarray of shape (n, d)
            Examples in standard coordinates.
        signs : ndarray of shape (n,)
            +1 for a positive example and -1 for any other; of a metric labels, of a regression
            targets, NaN if unknown.
        setting : PublicSetting
            The public facts.
        noise : NoiseSource
            The only source of randomness that protects the data.

        Returns
        -------
        PrivateFit
            Everything that is released.
        """

    def check(self, setting: PublicSetting) -> None:
        """Refuse a setting that the proof does not cover."""
        if setting.neighbours not in self.relations:
            raise ValueError(
                f"{self.name} is proved for neighbours in {self.relations}, got "
                f"{setting.neighbours!r}. {self.missing_relation}".rstrip()
            )


def certify(
    fit: PrivateFit, mechanism: str, *, setting: PublicSetting, noise: NoiseSource,
    public: Mapping[str, str] | None = None, **facts: Any,
) -> Certificate:  # fmt: skip
    """Return the certificate of a private fit.

    `public` holds further public facts, and `facts` other fields of the certificate, such as `unit`
    and `warnings`.
    """
    counted = f"number of {facts.get('unit', 'example')}s"
    known = {
        counted: (
            f"{setting.n_examples}, as in the data"
            if setting.neighbours == "replace"
            else f"at most {setting.n_examples}, given by the caller"
        ),
        "bounds": "lower and upper bound of each feature, given by the caller",
        "kinds": "number of levels of each feature (0 = continuous), given by the caller",
        "centre": "middle of the bounds" if setting.centre is None else "given by the caller",
    }
    stated: dict[str, Any] = {
        "mechanism": mechanism, "neighbours": setting.neighbours, "epsilon": setting.epsilon,
        "delta": setting.delta, "n_examples": setting.n_examples,
        "n_features": setting.n_features, "releases": fit.releases,
        "generator": noise.description, "private": noise.private, "mu": fit.mu,
        "accounting": "adaptive composition of Gaussian-DP, converted exactly",
        "public": known | dict(public or {}),
    }  # fmt: skip
    return Certificate(**{**stated, **facts})
