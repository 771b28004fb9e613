# SPDX-License-Identifier: BSD-3-Clause
r"""Narrow public bounds that turn out far wider than the examples, for a small part of the budget.

Honest public bounds are wide: one outlier, or a documented range, leaves most examples in a corner.
Noise is proportional to the width, so such bounds drown the signal. This module asks first how the
examples lie. Each continuous feature is cut into 16 equal bins, and the number of examples in each
bin is released. Where at most 4 neighbouring bins hold seven tenths of the examples, with half a
standard deviation of the noise to spare, the bounds become three times as wide as these bins, or
half of the range if that is less. Features that one or two bins hold are looked at again, inside
their new bounds, three times in all. Other features keep their public bounds, and so does a feature
with examples at an end that would be cut off: it is a code that nobody called so.

A look spends what brings the noise of a count to a twentieth of the examples, or to 16,384 of them
if that is less, at most a twentieth of mu^2 for all features, and less for fewer of them. No look
is taken if the noise would be more than a seventh of the examples, by public numbers. Lemma 21 in
``docs/privacy/lemmas.md`` proves the sensitivity and the composition of a varying number of looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import PublicSetting, relative_slack
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import GRID_STEPS
from pairlearn.typing import Mask, Vector

#: Bins of a feature.
_BINS = 16
#: The standard deviation of a count, as a share of the examples, that is enough: no look spends
#: more than it takes.
_ENOUGH_NOISE = 0.05
#: The same in examples, for many of them: more noise would need a grid whose rounding is a part of
#: the sensitivity, and from 2^24 on there is none.
_ENOUGH_FOR_MANY = float(1 << 14)
#: No look is taken if the standard deviation is more than this.
_MOST_NOISE = 0.145
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
#: Most steps of the grid of counts in one example.
_MOST_STEPS = 1 << 30
#: Largest standard deviation in examples for which there is a grid.
_LARGEST_NOISE = float(1 << 22)


@dataclass(frozen=True)
class CountGrid:
    """The grid of counts and their noise.

    An example is `steps` steps of the grid, a power of 2, and `scale` the standard deviation of the
    noise in steps; `sensitivity` is in examples and includes the rounding of the shares of persons.
    """

    steps: int
    scale: int
    sensitivity: float

    def release(self, name: str, size: int) -> Release:
        """Return the entry of the counts in a certificate."""
        return Release(name, size, self.sensitivity, self.scale / self.steps)


@dataclass(frozen=True, eq=False)
class Bins:
    """The question how many examples lie in each of 16 equal bins of some features.

    Parameters
    ----------
    features : ndarray of int, shape (k,)
        The columns.
    lower, upper : ndarray of shape (k,)
        The ends of their ranges; values outside count in the first or the last bin.

    Examples
    --------
    >>> bins = Bins(np.array([1]), np.array([0.0]), np.array([16.0]))
    >>> bins.counts(np.array([[5.0, 3.5], [5.0, np.nan], [5.0, np.inf]]), 8)[[3, 4, 15]]
    array([8, 0, 8])
    """

    features: NDArray[np.int64]
    lower: Vector
    upper: Vector

    def counts(
        self, rows: Vector, steps: int, persons: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return the counts, one feature after the other, where each example counts `steps`.

        Counts are exact, and NaN counts nowhere. `persons` numbers the person of each row from
        0; a person counts as one, with a share in the bins of each of his or her rows.
        """
        size = _BINS * len(self.features)
        values = np.clip(rows[:, self.features], self.lower, self.upper)
        row, column = np.nonzero(~np.isnan(values))
        # In halves, since the width of bounds may be beyond float64.
        low, high = 0.5 * self.lower, 0.5 * self.upper
        places = (0.5 * values - low) / (high - low) * _BINS
        bins = np.minimum(places[row, column].astype(np.int64), _BINS - 1)
        bins += _BINS * column
        if persons is None:
            return steps * np.bincount(bins, minlength=size).astype(np.int64)
        n_persons = int(persons.max(initial=-1)) + 1
        n_rows = np.bincount(persons, minlength=n_persons)
        cell, found = np.unique(persons[row] * size + bins, return_counts=True)
        # Shares are rounded person by person, so that the order of summation does not matter.
        shares = np.rint(steps * found / n_rows[cell // size]).astype(np.int64)
        total = np.zeros(size, dtype=np.int64)
        np.add.at(total, cell % size, shares)
        return total

    def inner_edges(self) -> Vector:
        """Return the values between neighbouring bins, one feature a row."""
        halves = np.linspace(0.5 * self.lower, 0.5 * self.upper, _BINS + 1, axis=1)
        edges: Vector = 2.0 * halves[:, 1:-1]
        return edges

    def sensitivity(self, neighbours: str) -> float:
        """Return the Euclidean sensitivity of the counts."""
        return _sensitivity(len(self.features), neighbours)

    def grid(self, neighbours: str, *, mu: float) -> CountGrid:
        """Return grid and noise of the counts with Gaussian-DP parameter `mu`, by lemma 21."""
        sensitivity = self.sensitivity(neighbours)
        finest = math.log2(GRID_STEPS * mu / sensitivity)
        steps = 1 << min(max(math.ceil(finest), 0), _MOST_STEPS.bit_length() - 1)
        sensitivity += math.sqrt(_BINS * len(self.features)) / steps
        sensitivity *= relative_slack
        return CountGrid(steps, math.ceil(sensitivity / mu * steps), sensitivity)


def _sensitivity(k: int, neighbours: str) -> float:
    """Return the Euclidean sensitivity of the counts of k features."""
    return math.sqrt((2.0 if neighbours == "replace" else 1.0) * k)


def fewest_examples(n_features: int, neighbours: str, *, mu: float) -> float:
    """Return the fewest examples, or persons, for which a look is taken.

    >>> round(fewest_examples(2, "replace", mu=1.0), 1)
    61.7
    """
    deviation = _sensitivity(n_features, neighbours) / (math.sqrt(_SHARE) * mu)
    return deviation / _MOST_NOISE


def _enough_noise(n: int) -> float:
    """Return the standard deviation of a count of n examples that is enough."""
    return min(_ENOUGH_NOISE * n, _ENOUGH_FOR_MANY)


def enough_in_a_bin(n: int, fewest: float) -> float:
    """Return how many of n examples one bin must hold; `fewest` is that of `fewest_examples`."""
    return _HELD * n + _TO_SPARE * max(_MOST_NOISE * fewest, _enough_noise(n))


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The answer to `Bins`: noisy counts in examples, the noise of each, the certificate entry."""

    counts: Vector
    deviation: float
    release: Release


def ask_table(
    rows: Vector, noise: NoiseSource, persons: NDArray[np.int64] | None = None
) -> Callable[..., NoisyCounts]:
    """Return the function that answers `Bins` from one table; see `narrowed`."""

    def ask(bins: Bins, *, neighbours: str, mu: float, name: str) -> NoisyCounts:
        grid = bins.grid(neighbours, mu=mu)
        whole = bins.counts(rows, grid.steps, persons)
        release = grid.release(name, len(whole))
        noisy = noise.protect_integers(whole, grid.scale) / grid.steps
        return NoisyCounts(noisy, release.noise_scale, release)

    return ask


def has_looks(releases: Iterable[Release]) -> bool:
    """Return whether bounds were looked for: noisy counts decided on later releases (lemma 21)."""
    return any(one.name.startswith(_LOOK) for one in releases)


def narrowed(
    setting: PublicSetting, ask: Callable[..., NoisyCounts]
) -> tuple[PublicSetting, list[Release]]:
    """Return the setting with narrower bounds and the rest of the budget, and what was released.

    Parameters
    ----------
    setting : PublicSetting
        The public facts; codes keep their bounds.
    ask : callable
        Takes a `Bins`, ``neighbours``, ``mu`` and ``name``, and returns the `NoisyCounts` of all
        examples. It is not called, and the setting is returned as it is, if the noise of a count
        would be more than a seventh of the number of examples.
    """
    lower, upper = setting.lower.copy(), setting.upper.copy()
    features = np.flatnonzero(setting.levels == 0)
    d, n = setting.n_features, setting.n_examples
    fewest = fewest_examples(d, setting.neighbours, mu=setting.mu)
    if not len(features) or n < fewest or fewest > _LARGEST_NOISE / _MOST_NOISE:
        return setting, []
    # The standard deviation of a count in examples, if a look spends _SHARE.
    largest = _MOST_NOISE * fewest
    enough = _SHARE * min(1.0, (largest / _enough_noise(n)) ** 2)
    releases: list[Release] = []
    spent = 0.0
    for look in range(_LOOKS):
        if not len(features):
            break
        # The noise of a count is the same in each look, so fewer features cost less.
        share = enough * len(features) / d
        found = ask(
            Bins(features, lower[features], upper[features]),
            neighbours=setting.neighbours,
            mu=setting.mu * math.sqrt(share),
            name=f"{_LOOK} {look + 1}",
        )
        releases.append(found.release)
        spent += (found.release.mu / setting.mu) ** 2
        shares = found.counts.reshape(-1, _BINS) / n
        starts, widths = _holding(shares, found.deviation / n)
        new = np.minimum(_WIDTH * widths, _BINS // 2)
        before = starts - 0.5 * (new - widths)
        low, high = 0.5 * lower[features], 0.5 * upper[features]
        step = (high - low) / _BINS
        below = 2.0 * np.maximum(low, low + before * step)
        above = 2.0 * np.minimum(high, low + (before + new) * step)
        if look == 0:
            widths[_reaches_an_end(shares, before, before + new, found.deviation / n)] = 0
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


def _reaches_an_end(shares: Vector, below: Vector, above: Vector, deviation: float) -> Mask:
    """Return whether a public end that new bounds would cut off holds examples, as for codes."""
    held = _AT_THE_END + 2.0 * deviation
    reached: Mask = (below > 0) & (shares[:, 0] > held)
    reached |= (above < _BINS) & (shares[:, -1] > held)
    return reached
