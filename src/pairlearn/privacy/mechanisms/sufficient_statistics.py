# SPDX-License-Identifier: BSD-3-Clause
r"""Release centred sufficient statistics once, with noise.

For the square loss, the linear score that maximises AUC is w = Cov(x)^{-1} Cov(x, y) up to scale
(labels y = -1, +1), so first and second moments suffice. With a public centre c and a public radius
R, let v = clip((x - c) / R) to the unit ball. A record contributes

    T(z) = ( y v,  b v,  k y,  r \|v\|,  sqrt(q) v v^T )

and the release is the sum of T over the records plus Gaussian noise (v v^T as a vector with the
off-diagonal entries times sqrt 2, so that lengths are Frobenius lengths). A person with several
records contributes the mean of T over them.

`Weights.sensitivity` is the largest \|T(z) - T(z')\|, or the largest \|T(z)\| if a record is added
or removed. Lemmas 4 and 12 in ``docs/privacy/lemmas.md`` prove it for records and for persons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import from_upper, relative_slack, upper_triangle
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

# Standard deviation of discrete noise, in grid steps: rounding then adds little to the sensitivity.
_GRID_STEPS = 1 << 20
# Statistics on the grid are computed in chunks of about this many numbers, to bound the memory.
_CHUNK_NUMBERS = 1 << 22


@dataclass(frozen=True)
class Weights:
    r"""b, k, r and q of the module: weights of v, y, \|v\|, and v v^T squared (0 leaves it out)."""

    mean: float
    label: float
    length: float
    second: float

    def __post_init__(self) -> None:
        for name in ("mean", "label", "length"):
            check_positive(name, getattr(self, name))
        if not 0 <= self.second <= (1 + self.mean**2) / 2 * (1 + 1e-12):
            raise ValueError(
                f"second must lie in [0, (1 + mean^2) / 2], got {self.second}: beyond it the "
                "sensitivity is not proved."
            )

    @classmethod
    def free(cls, mean: float, *, second_moments: bool = True) -> Weights:
        """Return the largest weights that cost nothing under replacement of one record.

        With `mean` b, the weight of v, the sensitivity is 2 sqrt(1 + b^2).
        """
        total = 1 + mean**2
        if second_moments:
            return cls(mean, mean / math.sqrt(total), math.sqrt(total), total / 2)
        return cls(mean, min(1.0, mean), math.sqrt(total), 0.0)

    def sensitivity(self, neighbours: str) -> float:
        """Return the L2 sensitivity of the sum of the statistics, by lemma 4."""
        b2, k2, r2, q = self.mean**2, self.label**2, self.length**2, self.second
        if neighbours == "add_remove":
            return math.sqrt(1 + b2 + k2 + r2 + q)
        if neighbours != "replace":
            raise ValueError(f"neighbours must be 'replace' or 'add_remove', got {neighbours!r}.")
        slope = abs(1 - b2)
        cosine = 1.0 if 2 * q <= slope else slope / (2 * q)
        flipped = 2 * (1 + b2) + 4 * k2 + 2 * slope * cosine + 2 * q * (1 - cosine**2)
        return math.sqrt(max(4 * (1 + b2), (1 + b2) + r2 + q + 4 * k2, flipped))


@dataclass(frozen=True)
class Moments:
    """Noisy moments of one release, each divided by n and by its weight.

    They are the means of y v, v, y, the length of v and v v^T. `deviation` is that of the noise in
    `label_mean`; the noise in `mean` is deviation / weights.mean, and so on.
    """

    label_mean: Vector
    mean: Vector
    label: float
    length: float
    second: Vector | None
    deviation: float
    weights: Weights
    centre: Vector
    radius: float
    release: Release

    @classmethod
    def from_sums(
        cls, noisy: Vector, n: int, *, weights: Weights, centre: Vector, **others: Any
    ) -> Moments:
        """Return the moments of n records from their noisy sums; `others` are the other fields."""
        d = len(centre)
        return cls(
            label_mean=noisy[:d] / n,
            mean=np.asarray(noisy[d : 2 * d] / (weights.mean * n)),
            label=float(noisy[2 * d] / (weights.label * n)),
            length=float(noisy[2 * d + 1] / (weights.length * n)),
            second=(
                from_upper(noisy[2 * d + 2 :]) / (math.sqrt(weights.second) * n)
                if weights.second
                else None
            ),
            weights=weights, centre=centre, **others,
        )  # fmt: skip


def clip_to_ball(V: Vector) -> tuple[Vector, Vector]:
    """Return the rows clipped to the unit ball and their lengths after clipping."""
    lengths = np.sqrt(np.einsum("ij,ij->i", V, V))
    clipped: Vector = V / np.maximum(lengths, 1.0)[:, None]
    return clipped, np.minimum(lengths, 1.0)


def record_statistics(V: Vector, signs: Vector, *, weights: Weights) -> Vector:
    """Clip the records and return T(z) of each as a row."""
    clipped, lengths = clip_to_ball(V)
    parts = [
        clipped * signs[:, None], weights.mean * clipped,
        weights.label * signs[:, None], weights.length * lengths[:, None],
    ]  # fmt: skip
    if weights.second:
        rows, columns, isometry = upper_triangle(V.shape[1])
        parts.append(
            clipped[:, rows] * clipped[:, columns] * (isometry * math.sqrt(weights.second))
        )
    return np.concatenate(parts, axis=1)


def release_moments(
    Z: Vector, signs: Vector, *, centre: Vector, radius: float, weights: Weights, mu: float,
    n_examples: int, neighbours: str, noise: NoiseSource, name: str = "centred moments",
    persons: NDArray[np.int64] | None = None,
) -> Moments:  # fmt: skip
    """Release the moments about `centre` with Gaussian-DP parameter `mu`.

    `centre` and `radius` are public, or computed from earlier releases only. `n_examples` is the
    public number that turns sums into means. `persons` gives the person of each row, in increasing
    order; by default each row is a separate person. The sensitivity includes the rounding of each
    record's statistics to a grid (lemma 4).
    """
    grid = Grid.fitting(weights, Z.shape[1], mu=check_positive("mu", mu), neighbours=neighbours)
    V = (Z - centre) / radius
    total = summed_on_grid(V, signs, weights=weights, step=grid.step, persons=persons)
    return Moments.from_sums(
        grid.protected(total, noise), n_examples, weights=weights, centre=centre, radius=radius,
        deviation=grid.scale / n_examples,
        release=Release(name, len(total), grid.sensitivity, grid.scale),
    )  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """The grid that a record's statistics are rounded to, and its noise.

    The standard deviation `scale` is an integer number of steps; `sensitivity` includes the
    rounding.
    """

    step: float
    scale: float
    sensitivity: float

    @classmethod
    def fitting(cls, weights: Weights, d: int, *, mu: float, neighbours: str) -> Grid:
        """Return the grid of a release of d features with Gaussian-DP parameter `mu`.

        scale mu = sensitivity + step sqrt(p) with step = scale / 2^20.
        """
        rounding = math.sqrt(n_statistics(d, weights)) / _GRID_STEPS
        if mu < 10 * rounding:
            raise ValueError(
                f"the budget mu = {mu:g} of a release is too small for the grid of the noise "
                f"with {d} features; ask for a larger epsilon."
            )
        scale = weights.sensitivity(neighbours) * relative_slack / (mu - rounding)
        return cls(scale / _GRID_STEPS, scale, scale * mu)

    def protected(self, total: NDArray[np.int64], noise: NoiseSource) -> Vector:
        """Return sums in steps of the grid with noise, in their own units."""
        return np.asarray(noise.protect_integers(total, _GRID_STEPS) * self.step, np.float64)


def n_statistics(d: int, weights: Weights) -> int:
    """Return the number of statistics of a record."""
    return 2 * d + 2 + (d * (d + 1) // 2 if weights.second else 0)


def summed_on_grid(
    V: Vector, signs: Vector, *, weights: Weights, step: float,
    persons: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the sum of the statistics in grid steps, rounded record by record."""
    size = n_statistics(V.shape[1], weights)
    total = np.zeros(size, dtype=np.int64)
    for part in _parts(len(V), persons, max(1, _CHUNK_NUMBERS // size)):
        records = record_statistics(V[part], signs[part], weights=weights)
        if persons is not None:
            records = _means_of_persons(records, persons[part])
        total += np.rint(records / step).astype(np.int64).sum(axis=0)
    return total


def _parts(n: int, persons: NDArray[np.int64] | None, chunk: int) -> list[slice]:
    """Return slices of about `chunk` rows that keep the rows of a person together."""
    starts = np.arange(n) if persons is None else np.flatnonzero(np.diff(persons, prepend=-1))
    edges = [0]
    while edges[-1] < n:
        later = starts[np.searchsorted(starts, edges[-1] + chunk) :]
        edges.append(int(later[0]) if len(later) else n)
    return [slice(a, b) for a, b in pairwise(edges)]


def _means_of_persons(records: Vector, persons: NDArray[np.int64]) -> Vector:
    """Return the mean row of each person; the rows of a person must be adjacent."""
    starts = np.flatnonzero(np.diff(persons, prepend=-1))
    counts = np.diff(starts, append=len(persons))
    means: Vector = np.add.reduceat(records, starts, axis=0) / counts[:, None]
    return means
