# SPDX-License-Identifier: BSD-3-Clause
"""Check that noise is as strong as stated, of the right shape, and never used twice.

The residuals z = (output - value) / scale of recorded runs should be independent standard normal.
An attack on the outputs misses weak noise where a proof is far from tight, as with secret draws. It
also misses noise that is shared: if two releases of one fit have the same noise, their difference
has none. This check looks at all residuals of all runs together and does not depend on the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np

from pairlearn.privacy.audit.tape import Tape
from pairlearn.typing import Vector

#: Residuals are compared up to this share of the scale; discrete noise has such a grid.
_GRID = float(1 << 20)
#: So many successive numbers are never equal by chance.
_EQUAL = 3
#: Distances, in a run and between runs, at which serial correlation is measured.
_LAGS = 4
#: Fewer pairs of squares than this do not have a nearly normal correlation.
_ENOUGH_SQUARES = 4_000


class NoiseCheck:
    """The residuals of many runs.

    >>> from pairlearn.privacy import NoiseSource
    >>> from pairlearn.privacy.audit.tape import recorded
    >>> def check(seed_of):
    ...     noise, zeros = NoiseCheck(), np.zeros(5, dtype=np.int64)
    ...     for run in range(200):
    ...         with recorded() as record:
    ...             _ = NoiseSource(seed=seed_of(run)).protect_integers(zeros, 1 << 20)
    ...         noise.add(record)
    ...     return noise
    >>> check(lambda run: run).correlation_lower(0.99) > 0
    False
    >>> check(lambda run: 7).correlation_lower(0.99) > 0.9
    True
    >>> check(lambda run: run // 2).findings(1e-4)[0]
    'the noise of one release was used again in another'
    """

    def __init__(self) -> None:
        self._runs: list[Vector] = []
        self._sizes: list[int] = []

    def add(self, record: Tape) -> None:
        """Add the residuals of a run."""
        parts = [
            (output - value) / scale
            for output, value, scale in zip(
                record.outputs, record.values, record.scales, strict=True
            )
        ]
        if parts:
            self._sizes = [len(part) for part in parts]
            self._runs.append(np.concatenate(parts))

    def level_upper(self, confidence: float) -> float:
        """Return an upper bound on the noise in stated units, by the chi-square law."""
        from scipy.special import gammaincinv

        if not self._runs:
            return math.inf
        z = np.concatenate(self._runs)
        return math.sqrt(float(z @ z) / (2.0 * float(gammaincinv(0.5 * len(z), 1.0 - confidence))))

    def correlation_lower(self, confidence: float) -> float:
        """Return a lower bound on the correlation of the noise of successive runs."""
        from scipy.special import ndtri

        products = [(a[: len(b)], b[: len(a)]) for a, b in pairwise(self._runs)]
        variance = float(np.mean(np.concatenate(self._runs) ** 2)) if products else 0.0
        if variance == 0.0:
            return 0.0
        left, right = (np.concatenate(side) for side in zip(*products, strict=True))
        error = float(ndtri(confidence)) / math.sqrt(len(left))
        return float(left @ right) / (len(left) * variance) - error

    def findings(self, error: float, *, adaptive: bool = False) -> list[str]:
        """Return what is wrong with the noise; sound noise has a finding with this probability.

        If earlier noisy numbers decide on later ones (`adaptive`), only those that every run has
        are looked at.
        """
        if not self._runs:
            return []
        shortest = min(map(len, self._runs))
        if max(map(len, self._runs)) > shortest and not adaptive:
            return ["the number of noisy numbers changes from run to run"]
        table = np.array([run[:shortest] for run in self._runs])
        found = []
        if _repeats(table):
            found.append("the noise of one release was used again in another")
        if not _has_normal_shape(table.ravel(), error / 2.0):
            found.append("the noise does not have the shape of Gaussian noise")
        return found + self._correlations(table, error / 2.0)

    def _correlations(self, table: Vector, error: float) -> list[str]:
        """Return which parts of the noise depend on each other."""
        from scipy.special import ndtri

        n_runs, p = table.shape
        compared = []
        for name, left, right in self._pooled(table):
            a, b = left.ravel(), right.ravel()
            compared.append((name, _correlation(a, b), len(a)))
            if len(a) >= _ENOUGH_SQUARES:
                r = _correlation(a * a - 1.0, b * b - 1.0)
                compared.append((f"{name} (in size)", r, len(a) // 2))
        n_tests = len(compared) + p * (p - 1) // 2
        if n_runs > 20 and p > 1 and (table.std(axis=0) > 0.0).all():
            each: Vector = np.asarray(np.corrcoef(table.T))
            np.fill_diagonal(each, 0.0)
            r = float(each.ravel()[np.argmax(np.abs(each))])
            compared.append(("two numbers of one run", r, n_runs))
        far = -float(ndtri(error / (2.0 * max(1, n_tests))))
        # A single sentence for each kind, with the strongest of its correlations.
        strongest: dict[str, float] = {}
        for name, r, n in compared:
            if n > 3 and abs(math.atanh(max(min(r, _ONE), -_ONE))) * math.sqrt(n - 3) > far:
                strongest[name] = max(strongest.get(name, 0.0), r, key=abs)
        return [f"the noise of {name} is correlated ({r:.3f})" for name, r in strongest.items()]

    def _pooled(self, table: Vector) -> Iterator[tuple[str, Vector, Vector]]:
        """Yield the name and the two sides of each pooled comparison."""
        edges = np.cumsum([0, *self._sizes])
        for one, other in combinations([table[:, a:b] for a, b in pairwise(edges)], 2):
            m = min(one.shape[1], other.shape[1])
            yield "two releases of one run", one[:, :m], other[:, :m]
        for lag in range(1, min(_LAGS, table.shape[1] - 1) + 1):
            yield "neighbouring numbers", table[:, lag:], table[:, :-lag]
        for lag in range(1, min(_LAGS, len(table) - 1) + 1):
            yield "successive runs", table[lag:], table[:-lag]


#: A correlation that is nearly 1, whose atanh is finite.
_ONE = 1.0 - 1e-12


def _correlation(a: Vector, b: Vector) -> float:
    """Return the correlation about 0; that of no noise is 1."""
    lengths = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / lengths if lengths > 0.0 else 1.0


def _repeats(table: Vector) -> bool:
    """Return whether successive numbers occur twice, up to their sign.

    Two numbers are equal by chance with a probability of about 2^-20, and three with 2^-60.
    """
    n_runs, p = table.shape
    size = min(_EQUAL, p)
    if size < 2 or n_runs * p <= size:
        return False
    keys = np.rint(np.abs(table) * _GRID).astype(np.uint64)
    mixed = np.zeros((n_runs, p - size + 1), dtype=np.uint64)
    for k in range(size):
        # Odd multipliers mix the keys; two different rows collide with a probability of 2^-64.
        mixed = (mixed + keys[:, k : p - size + 1 + k]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return len(np.unique(mixed)) < mixed.size


def _has_normal_shape(z: Vector, error: float) -> bool:
    """Compare the counts in cells, among them the tails, with the normal law by chi-square."""
    from scipy.special import ndtr, ndtri
    from scipy.stats import chisquare

    n_cells = min(32, len(z) // 10)
    if n_cells < 4:
        return True
    cuts = ndtri(np.arange(1, n_cells) / n_cells)
    tails = [t for t in (2.5, 3.0, 3.5, 4.0, 4.5) if len(z) * float(ndtr(-t)) >= 10.0]
    cuts = np.unique(np.concatenate([cuts, tails, np.negative(tails)]))
    expected = len(z) * np.diff(ndtr(np.concatenate([[-np.inf], cuts, [np.inf]])))
    counts = np.bincount(np.searchsorted(cuts, z), minlength=len(expected))
    return float(chisquare(counts, expected).pvalue) >= error
