# SPDX-License-Identifier: BSD-3-Clause
r"""Bounds of the features for a part of the budget: wide public ones narrowed, or found anew.

Noise is proportional to the width of the bounds, so bounds much wider than the data drown the
signal.

**Narrowing** (`narrowed`) asks how the examples lie. Each continuous feature is cut into 16 equal
bins, and the number of examples in each bin is released. Where at most 4 neighbouring bins hold
seven tenths of the examples, with half a standard deviation of the noise to spare, the bounds
become three times as wide as these bins, or half of the range if that is less. Features that one or
two bins hold are looked at again, inside their new bounds, three times in all. Other features keep
their public bounds, and so does a feature with examples at an end that would be cut off: it is a
code that nobody called so. A look spends what brings the noise of a count to a twentieth of the
examples, or to 16,384 of them if that is less, at most a twentieth of mu^2 for all features, and
less for fewer of them. No look is taken if the noise would be more than a seventh of the examples,
by public numbers. Lemma 21 in ``docs/privacy/lemmas.md`` proves the sensitivity and the composition
of a varying number of looks.

**A search** (`PrivateBounds`, `find_bounds`) needs no public bounds. A noisy bisection inside a
public range finds the quartiles of each feature; the bounds are their midpoint plus or minus 2.2
times the interquartile range: about three standard deviations of a normal feature. Level l asks,
for each of d features and for q = 1/4 and q = 3/4, how many more examples than a share q lie at or
below the current threshold t. The answer is the sum over the records of 4 1[x <= t] - 4 q, or 0 for
a missing value. A noisy sum above 0 says that the quartile lies at or below t. Lemma 15 proves
`quartile_sensitivity`.

In both, a person with several records contributes the mean over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.mechanisms.base import PublicSetting, relative_slack
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_fraction

Persons = NDArray[np.int64] | None

#: Shares and means of persons are rounded to multiples of 1 over this number, so that the order of
#: summation does not matter.
_GRID = float(1 << 20)
#: Bins of a feature.
_BINS = 16
#: The standard deviation of a count, as a share of the examples, that is enough: no look spends
#: more than it takes.
_ENOUGH_NOISE = 0.05
#: The same in examples, for many of them: more noise would need a grid whose rounding is a part of
#: the sensitivity.
_ENOUGH_FOR_MANY = float(1 << 14)
#: No look is taken if the standard deviation is more than this share, or this many examples.
_MOST_NOISE, _LARGEST_NOISE = 0.145, float(1 << 18)
#: Most of mu^2 that a look at all features spends.
_SHARE = 0.05
#: Most looks, and how their releases are called.
_LOOKS, _LOOK = 3, "counts in bins, look"
#: The share of the examples that the narrow bins must hold.
_HELD = 0.7
#: They must hold so many standard deviations of the noise more than that.
_TO_SPARE = 0.5
#: Most bins that may hold them.
_MOST_HOLDING = 4
#: The new width, in widths of these bins: for a normal feature six standard deviations.
_WIDTH = 3
#: A feature that at most so many bins hold is looked at again.
_HARDLY_RESOLVED = 2
#: Bounds stay if a bin at an end that new bounds would cut off holds more than this share, with two
#: standard deviations of the noise to spare.
_AT_THE_END = 0.05

#: Half-width of found bounds in interquartile ranges: three normal standard deviations.
_REACH = 2.2
#: Without a public range the search covers values up to this size.
_LARGEST = 1e9
#: Without a public range the steps are even below this size, and relative above it.
_EVEN = 1e-3
#: Halvings of a public range: an interval of 1/1024 of it is left; and without a public range.
_LEVELS, _LEVELS_WITHOUT_RANGE = 10, 12
#: Most halvings that leave an interval of positive width in floating point.
_MOST_LEVELS = 30


# ------------------------------------------------------------------------------------ narrowing


def bin_counts(rows: Vector, lower: Vector, upper: Vector, persons: Persons = None) -> Vector:
    """Return the number of examples in each of 16 equal bins, one feature after the other.

    Counts are exact, and NaN counts nowhere; values outside count in the first or the last bin.
    `persons` numbers the person of each row from 0; a person counts as one, with a share in the
    bins of each of his or her rows.

    >>> bin_counts(np.array([[3.5], [np.nan], [np.inf]]), np.zeros(1), np.full(1, 16.0))[[3, 4, 15]]
    array([1., 0., 1.])
    """
    size = _BINS * rows.shape[1]
    values = np.clip(rows, lower, upper)
    row, column = np.nonzero(~np.isnan(values))
    # In halves, since the width of bounds may be beyond float64.
    low, high = 0.5 * lower, 0.5 * upper
    places = (0.5 * values - low) / (high - low) * _BINS
    bins = np.minimum(places[row, column].astype(np.int64), _BINS - 1) + _BINS * column
    if persons is None:
        return np.bincount(bins, minlength=size).astype(np.float64)
    n_rows = np.bincount(persons, minlength=int(persons.max(initial=-1)) + 1)
    cell, found = np.unique(persons[row] * size + bins, return_counts=True)
    shares = np.rint(_GRID * found / n_rows[cell // size])
    # Sums of whole numbers below 2^53.
    return np.bincount(cell % size, shares, size) / _GRID


def bin_sensitivity(k: int, neighbours: str, *, persons: bool = False) -> float:
    """Return the Euclidean sensitivity of the counts of k features, by lemma 21."""
    rounding = math.sqrt(_BINS * k) / _GRID if persons else 0.0
    return math.sqrt((2.0 if neighbours == "replace" else 1.0) * k) + rounding


def fewest_examples(n_features: int, neighbours: str, *, mu: float) -> float:
    """Return the fewest examples, or persons, for which a look is taken.

    >>> round(fewest_examples(2, "replace", mu=1.0), 1)
    61.7
    """
    return bin_sensitivity(n_features, neighbours) / (math.sqrt(_SHARE) * mu) / _MOST_NOISE


def enough_in_a_bin(n: int, fewest: float) -> float:
    """Return how many of n examples one bin must hold; `fewest` is that of `fewest_examples`."""
    return _HELD * n + _TO_SPARE * max(_MOST_NOISE * fewest, _enough_noise(n))


def _enough_noise(n: int) -> float:
    return min(_ENOUGH_NOISE * n, _ENOUGH_FOR_MANY)


def has_looks(releases: Iterable[Release]) -> bool:
    """Return whether bounds were looked for: noisy counts decided on later releases (lemma 21)."""
    return any(one.name.startswith(_LOOK) for one in releases)


def narrowed(
    setting: PublicSetting, rows: Vector, noise: NoiseSource, persons: Persons = None
) -> tuple[PublicSetting, list[Release]]:
    """Return the setting with narrower bounds and the rest of the budget, and what was released.

    Codes keep their bounds, and all features do if the noise of a count would be more than a
    seventh of the number of examples.
    """
    lower, upper = setting.lower.copy(), setting.upper.copy()
    features = np.flatnonzero(setting.levels == 0)
    d, n, relation = setting.n_features, setting.n_examples, setting.neighbours
    largest = _MOST_NOISE * fewest_examples(d, relation, mu=setting.mu)
    if not len(features) or _MOST_NOISE * n < largest or largest > _LARGEST_NOISE:
        return setting, []
    enough = _SHARE * min(1.0, (largest / _enough_noise(n)) ** 2)
    releases: list[Release] = []
    spent = 0.0
    for look in range(_LOOKS):
        if not len(features):
            break
        before, after = lower[features], upper[features]
        sensitivity = bin_sensitivity(len(features), relation, persons=persons is not None)
        counts, release = release_vector(
            bin_counts(rows[:, features], before, after, persons), name=f"{_LOOK} {look + 1}",
            sensitivity=sensitivity * relative_slack,
            # The noise of a count is the same in each look, so fewer features cost less.
            mu=setting.mu * math.sqrt(enough * len(features) / d), noise=noise,
        )  # fmt: skip
        releases.append(release)
        spent += (release.mu / setting.mu) ** 2
        shares, deviation = counts.reshape(-1, _BINS) / n, release.noise_scale / n
        starts, widths = _holding(shares, deviation)
        new = np.minimum(_WIDTH * widths, _BINS // 2)
        first = starts - 0.5 * (new - widths)
        low, high = 0.5 * before, 0.5 * after
        step = (high - low) / _BINS
        below = 2.0 * np.maximum(low, low + first * step)
        above = 2.0 * np.minimum(high, low + (first + new) * step)
        if look == 0:
            # A public end that new bounds would cut off holds examples, as for codes.
            held = _AT_THE_END + 2.0 * deviation
            reached = (first > 0) & (shares[:, 0] > held)
            reached |= (first + new < _BINS) & (shares[:, -1] > held)
            widths[reached] = 0
        # In floating point nothing may lie between two bounds that are close.
        narrow = (widths > 0) & (below < above)
        lower[features[narrow]], upper[features[narrow]] = below[narrow], above[narrow]
        features = features[narrow & (widths <= _HARDLY_RESOLVED)]
    # A little below the rest, so that rounding cannot exceed the budget.
    left = setting.mu * math.sqrt(1.0 - spent) * (1.0 - 1e-12)
    return replace(setting.within(lower, upper, budget=left), given=setting), releases


def _holding(shares: Vector, deviation: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return start and number of the fewest bins that hold enough; number 0 if too many do."""
    starts = np.zeros(len(shares), dtype=np.int64)
    widths = np.zeros(len(shares), dtype=np.int64)
    total = np.pad(np.cumsum(shares, axis=1), ((0, 0), (1, 0)))
    for width in range(_MOST_HOLDING, 0, -1):
        held = total[:, width:] - total[:, :-width]
        enough = held.max(axis=1) >= _HELD + _TO_SPARE * deviation * math.sqrt(width)
        starts[enough], widths[enough] = held.argmax(axis=1)[enough], width
    return starts, widths


# ------------------------------------------------------------------------------------ searching


@dataclass(frozen=True)
class PrivateBounds:
    """Bounds that are found with a part of the budget, in place of public ones.

    Parameters
    ----------
    lower, upper : float or array-like, optional
        A public range that is surely wide enough, for all features or for each. Without it the
        search goes from -1e9 to 1e9 in relative steps: good for numbers of unknown size, coarse for
        numbers that lie close together far from 0, such as years.
    share : float, default=0.2
        The share of mu^2 that the search spends.
    n_levels : int, optional
        Number of halvings; 10 by default, and 12 without a range.

    Examples
    --------
    >>> PrivateBounds(0, 1e6).range_of(2)
    (array([0., 0.]), array([1000000., 1000000.]))
    """

    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    share: float = 0.2
    n_levels: int | None = None

    def __post_init__(self) -> None:
        check_fraction("share", self.share)
        if self.n_levels is not None and check_count("n_levels", self.n_levels) > _MOST_LEVELS:
            raise ValueError(
                f"n_levels must be at most {_MOST_LEVELS}, got {self.n_levels}: after more "
                "halvings an interval has no width in floating point."
            )
        if (self.lower is None) != (self.upper is None):
            raise ValueError("PrivateBounds takes lower and upper, or neither; got one of them.")

    @property
    def levels(self) -> int:
        """Number of halvings."""
        if self.n_levels is not None:
            return self.n_levels
        return _LEVELS_WITHOUT_RANGE if self.lower is None else _LEVELS

    def range_of(self, d: int) -> tuple[Vector, Vector]:
        """Return the public range of d features."""
        ends = (-_LARGEST, _LARGEST) if self.lower is None else (self.lower, self.upper)
        low, high = (np.asarray(end, dtype=np.float64) for end in ends)
        for end in (low, high):
            if end.ndim > 1 or (end.ndim == 1 and len(end) != d):
                raise ValueError(
                    f"each end of the range must be a number or {d} numbers, got shape {end.shape}."
                )
        low, high = np.broadcast_to(low, (d,)).copy(), np.broadcast_to(high, (d,)).copy()
        with np.errstate(all="ignore"):
            width = high - low
        if not (np.isfinite(width).all() and (width > 0).all()):
            raise ValueError(
                "PrivateBounds needs a finite public range with lower < upper for each feature, "
                "of a finite width."
            )
        return low, high

    def values_at(self, places: Vector, low: Vector, high: Vector) -> Vector:
        """Map positions in [0, 1] to feature values, linearly if there is a public range."""
        if self.lower is not None:
            return low + places * (high - low)
        stretch = math.asinh(_LARGEST / _EVEN)
        values: Vector = _EVEN * np.sinh(stretch * (2.0 * places - 1.0))
        return np.clip(values, low, high)


def quartile_counts(rows: Vector, first: Vector, third: Vector, persons: Persons = None) -> Vector:
    """Return the sums of the module: d for the first quartile, then d for the third.

    The sums are exact. NaN is missing. `persons` numbers the person of each row from 0.
    """
    known = ~np.isnan(rows)
    parts = []
    for at, target in ((first, 1.0), (third, 3.0)):
        asked = np.where(known, 4.0 * (rows <= at) - target, 0.0)
        if persons is not None:
            sums = np.zeros((int(persons.max(initial=-1)) + 1, rows.shape[1]))
            np.add.at(sums, persons, asked)
            n_rows = np.maximum(np.bincount(persons, minlength=len(sums)), 1)[:, None]
            asked = np.rint(sums / n_rows * _GRID) / _GRID
        parts.append(asked.sum(axis=0))
    return np.concatenate(parts)


def quartile_sensitivity(d: int, neighbours: str, *, persons: bool = False) -> float:
    """Return the Euclidean sensitivity of `quartile_counts` by lemma 15."""
    rounding = math.sqrt(2.0 * d) / _GRID if persons else 0.0
    return math.sqrt((32.0 if neighbours == "replace" else 18.0) * d) + rounding


def find_bounds(
    rows: Vector, search: PrivateBounds, *, setting: PublicSetting, noise: NoiseSource,
    persons: Persons = None,
) -> tuple[PublicSetting, list[Release]]:  # fmt: skip
    """Return the setting with the bounds found, and the releases that found them.

    The search spends ``search.share`` of the squared mu of (epsilon, delta); the budget of
    `setting` is what is left. Codes keep the public range. NaN in `rows` is missing, and `persons`
    holds the person of each row, numbered from 0.
    """
    lower, upper = search.range_of(rows.shape[1])
    searched = setting.levels == 0
    d = int(searched.sum())
    if d == 0:
        return setting.within(lower, upper, budget=setting.mu), []
    low, high = lower[searched], upper[searched]
    rows = np.clip(rows[:, searched], low, high)
    mu = mu_of(setting.epsilon, setting.delta) * math.sqrt(search.share / search.levels)
    sensitivity = quartile_sensitivity(d, setting.neighbours, persons=persons is not None)
    # Rows of `places` are the first and the third quartile.
    places, step = np.full((2, d), 0.5), 0.25
    releases, asked, shares = [], [], []
    for level in range(search.levels):
        first, third = search.values_at(places, low, high)
        noisy, release = release_vector(
            quartile_counts(rows, first, third, persons),
            name=f"quartiles, level {level + 1} of {search.levels}",
            sensitivity=sensitivity, mu=mu * (1.0 - 1e-12), noise=noise,
        )  # fmt: skip
        releases.append(release)
        asked.append(places)
        shares.append(noisy.reshape(2, d) / (4.0 * setting.n_examples) + [[0.25], [0.75]])
        places = places - step * np.sign(noisy.reshape(2, d))
        step /= 2.0
    # The last interval is two of the last steps wide.
    first, third = _quartiles(np.concatenate(asked), np.concatenate(shares))
    third = np.maximum(third, first + 2.0 * step)
    below = search.values_at(first, low, high)
    above = search.values_at(np.minimum(third, 1.0), low, high)
    middle = 0.5 * below + 0.5 * above
    with np.errstate(over="ignore"):  # the range ends there
        reach = _REACH * (above - below)
        below, above = np.maximum(low, middle - reach), np.minimum(high, middle + reach)
    # In floating point nothing may lie between two bounds that are close.
    found: Mask = below < above
    lower[searched], upper[searched] = np.where(found, below, low), np.where(found, above, high)
    return setting.within(lower, upper, budget=setting.mu), releases


def _quartiles(places: Vector, shares: Vector) -> tuple[Vector, Vector]:
    """Return the positions of the quartiles from noisy shares below `places`, a column per feature.

    Isotonic regression makes the shares increase from 0 to 1 over the range; between positions they
    are interpolated linearly.
    """
    from scipy.optimize import isotonic_regression

    first, third = np.empty(places.shape[1]), np.empty(places.shape[1])
    for k in range(places.shape[1]):
        order = np.argsort(places[:, k], kind="stable")
        rising = np.clip(isotonic_regression(shares[order, k]).x, 0.0, 1.0)
        at = np.concatenate([[0.0], places[order, k], [1.0]])
        first[k], third[k] = np.interp([0.25, 0.75], np.r_[0.0, rising, 1.0], at)
    return first, third
