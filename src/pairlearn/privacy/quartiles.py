# SPDX-License-Identifier: BSD-3-Clause
"""Find bounds of the features from the private data, for a part of the budget.

Noise is proportional to the width of the bounds, so bounds much wider than the data drown the
signal. Without better public bounds, a noisy bisection inside a public range finds the quartiles of
each feature. The bounds are their midpoint plus or minus 2.2 times the interquartile range: about
three standard deviations of a normal feature.

Level l asks, for each of d features and for q = 1/4 and q = 3/4, how many more examples than a
share q lie at or below the current threshold t. The answer is the sum over the records of
4 1[x <= t] - 4 q, or 0 for a missing value. A noisy sum above 0 says that the quartile lies at or
below t. A person with several records contributes the mean over them. Lemma 15 in
``docs/privacy/lemmas.md`` proves `quartile_sensitivity`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_fraction

#: Half-width of the bounds in interquartile ranges: three standard deviations of a normal feature.
_REACH = 2.2
#: Without a public range the search covers values up to this size.
_LARGEST = 1e9
#: Without a public range the steps are even below this size, and relative above it.
_EVEN = 1e-3
#: Halvings of a public range: an interval of 1/1024 of it is left.
_LEVELS = 10
#: Halvings without a public range, which is wider.
_LEVELS_WITHOUT_RANGE = 12
#: Most halvings that leave an interval of positive width in floating point.
_MOST_LEVELS = 30
#: Means of persons are rounded to multiples of 1 over this number.
_GRID = float(1 << 20)


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


def quartile_counts(
    rows: Vector, first: Vector, third: Vector, persons: NDArray[np.int64] | None = None
) -> Vector:
    """Return the sums of the module: d for the first quartile, then d for the third.

    The sums are exact. NaN is missing. `persons` numbers the person of each row from 0.
    """
    known = ~np.isnan(rows)
    below = [(rows <= first) & known, (rows <= third) & known]
    if persons is None:
        n_known = known.sum(axis=0)
        parts = [
            4.0 * b.sum(axis=0) - target * n_known for b, target in zip(below, (1, 3), strict=True)
        ]
        return np.concatenate(parts).astype(np.float64)
    n_persons = int(persons.max(initial=-1)) + 1
    n_rows = np.maximum(np.bincount(persons, minlength=n_persons), 1)[:, None]
    parts = []
    for b, target in zip(below, (1.0, 3.0), strict=True):
        sums = np.zeros((n_persons, rows.shape[1]))
        np.add.at(sums, persons, np.where(known, 4.0 * b - target, 0.0))
        # Integers, so that the order of summation does not matter.
        parts.append(np.rint(sums / n_rows * _GRID).sum(axis=0) / _GRID)
    return np.concatenate(parts)


def quartile_sensitivity(d: int, neighbours: str, *, persons: bool = False) -> float:
    """Return the Euclidean sensitivity of `quartile_counts` by lemma 15."""
    rounding = math.sqrt(2.0 * d) / _GRID if persons else 0.0
    return math.sqrt((32.0 if neighbours == "replace" else 18.0) * d) + rounding


def find_bounds(
    rows: Vector,
    search: PrivateBounds,
    *,
    searched: Mask,
    mu: float,
    neighbours: str,
    noise: NoiseSource,
    n_examples: int,
    persons: NDArray[np.int64] | None = None,
) -> tuple[Vector, Vector, list[Release]]:
    """Return bounds of each feature and the releases that found them.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Raw examples; NaN is missing.
    search : PrivateBounds
        The public range and the number of levels.
    searched : ndarray of bool, shape (d,)
        The features to search; others keep the public range.
    mu : float
        The budget of the search.
    neighbours : str
        The neighbouring relation.
    noise : NoiseSource
        The noise.
    n_examples : int
        The public number that turns sums into shares.
    persons : ndarray of int, optional
        The person of each row, numbered from 0.
    """
    lower, upper = search.range_of(rows.shape[1])
    d = int(searched.sum())
    if d == 0:
        return lower, upper, []
    low, high = lower[searched], upper[searched]
    rows = np.clip(rows[:, searched], low, high)
    # Rows of `places` are the first and the third quartile.
    places, step = np.full((2, d), 0.5), 0.25
    releases, asked, shares = [], [], []
    for level in range(search.levels):
        first, third = search.values_at(places, low, high)
        noisy, release = release_vector(
            quartile_counts(rows, first, third, persons),
            name=f"quartiles, level {level + 1} of {search.levels}",
            sensitivity=quartile_sensitivity(d, neighbours, persons=persons is not None),
            mu=mu / math.sqrt(search.levels),
            noise=noise,
        )
        releases.append(release)
        asked.append(places)
        shares.append(noisy.reshape(2, d) / (4.0 * n_examples) + [[0.25], [0.75]])
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
    found = below < above
    lower[searched], upper[searched] = np.where(found, below, low), np.where(found, above, high)
    return lower, upper, releases


def _quartiles(places: Vector, shares: Vector) -> tuple[Vector, Vector]:
    """Return the positions of the quartiles from noisy shares below `places`, a column per feature.

    Isotonic regression makes the shares increase from 0 to 1 over the range; between positions they
    are interpolated linearly.
    """
    first, third = np.empty(places.shape[1]), np.empty(places.shape[1])
    for k in range(places.shape[1]):
        order = np.argsort(places[:, k], kind="stable")
        at, share = places[order, k], shares[order, k]
        total = np.concatenate([[0.0], np.cumsum(share)])
        ends = np.arange(len(at))
        # mean[i, j] over places i to j; the regression is max over i <= k of min over j >= k.
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (total[None, 1:] - total[:-1, None]) / (ends[None, :] - ends[:, None] + 1)
        mean[ends[:, None] > ends[None, :]] = np.inf
        least = np.minimum.accumulate(mean[:, ::-1], axis=1)[:, ::-1]
        rising = np.array([least[: j + 1, j].max() for j in ends])
        at = np.concatenate([[0.0], at, [1.0]])
        rising = np.concatenate([[0.0], np.clip(rising, 0.0, 1.0), [1.0]])
        first[k], third[k] = np.interp([0.25, 0.75], rising, at)
    return first, third
