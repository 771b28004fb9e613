# SPDX-License-Identifier: BSD-3-Clause
r"""Where the noise of a private release comes from.

Noise has its own source, seeded by the operating system and shared with nothing else: a
permutation may be public, noise may not. A `NoiseSource` gives either

* ordinary Gaussian noise in floating point (fast; the exact set of reachable doubles can betray
  the value under the noise, Mironov 2012), or
* with ``secure=True``, the *discrete* Gaussian on the integers, sampled exactly from the bytes of
  the operating system (Canonne, Kamath and Steinke, 2020) with integer arithmetic only.

A source made with a seed is reproducible and therefore not private; it says so.
"""

from __future__ import annotations

import os
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.validation import check_count, check_positive

__all__ = ["NoiseSource", "discrete_gaussian"]

# Keeps every intermediate below 2^63 while |X| < 2^13 scale, an event of probability
# 1 - exp(-2^13) or more for the proposal.
_LARGEST_SCALE = 1 << 24


class _Bits:
    """Uniform whole numbers from operating-system bytes, or from a seeded generator in tests."""

    def __init__(self, generator: np.random.Generator | None = None) -> None:
        self._generator = generator

    def below(self, bound: int, size: int) -> NDArray[np.int64]:
        """Return `size` whole numbers, exactly uniform on 0, ..., bound - 1 (bound < 2^63)."""
        limit = (1 << 64) - (1 << 64) % bound
        result = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            words = self._words(size - filled)
            if limit < 1 << 64:
                words = words[words < np.uint64(limit)]
            result[filled : filled + len(words)] = (words % np.uint64(bound)).astype(np.int64)
            filled += len(words)
        return result

    def _words(self, size: int) -> NDArray[np.uint64]:
        if self._generator is not None:
            return self._generator.integers(0, 1 << 64, size=size, dtype=np.uint64)
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def _bernoulli_exp_fraction(
    numerator: NDArray[np.int64], denominator: int, bits: _Bits
) -> NDArray[np.bool_]:
    """Sample Bernoulli(exp(-a/b)) exactly for 0 <= a <= b.

    Von Neumann's series: draw A_k ~ Bernoulli(a / (b k)) for k = 1, 2, ... until the first 0; the
    number of draws is odd with probability exp(-a/b). A draw of A_k is two independent ones, of
    chances a/b and 1/k.
    """
    odd = np.zeros(len(numerator), dtype=np.bool_)
    alive = np.arange(len(numerator))
    k = 1
    while len(alive):
        success = bits.below(denominator, len(alive)) < numerator[alive]
        if k > 1:
            success &= bits.below(k, len(alive)) == 0
        if k % 2 == 1:
            odd[alive[~success]] = True
        alive = alive[success]
        k += 1
    return odd


def _bernoulli_exp(
    whole: NDArray[np.int64], numerator: NDArray[np.int64], denominator: int, bits: _Bits
) -> NDArray[np.bool_]:
    """Sample Bernoulli(exp(-(whole + a/b))) exactly, for whole >= 0 and 0 <= a <= b."""
    result = _bernoulli_exp_fraction(numerator, denominator, bits)
    left = whole.copy()
    alive = np.flatnonzero(result & (left > 0))
    while len(alive):
        success = _bernoulli_exp_fraction(np.ones(len(alive), dtype=np.int64), 1, bits)
        result[alive[~success]] = False
        left[alive] -= 1
        alive = alive[success & (left[alive] > 0)]
    return result


def _geometric_exp(size: int, bits: _Bits) -> NDArray[np.int64]:
    """Sample the number of successes of Bernoulli(1/e) before the first failure."""
    count = np.zeros(size, dtype=np.int64)
    alive = np.arange(size)
    while len(alive):
        success = _bernoulli_exp_fraction(np.ones(len(alive), dtype=np.int64), 1, bits)
        alive = alive[success]
        count[alive] += 1
    return count


def discrete_gaussian(scale: int, size: int, *, bits: _Bits | None = None) -> NDArray[np.int64]:
    r"""Sample the discrete Gaussian, P[X = x] proportional to exp(-x^2 / (2 scale^2)), exactly.

    Rejection from the discrete Laplace law P[Y = y] proportional to exp(-\|y\| / scale):
    y is kept with probability exp(-(\|y\| - scale)^2 / (2 scale^2)), because
    -y^2/(2 s^2) + \|y\|/s = -(\|y\| - s)^2/(2 s^2) + 1/2 (Algorithm 3 of Canonne, Kamath and
    Steinke with t = s). Integer arithmetic only.

    Parameters
    ----------
    scale : int
        The parameter, a whole number from 1 to 2^24.
    size : int
        How many values.
    bits : optional
        Source of uniform numbers; operating-system bytes by default.

    Examples
    --------
    >>> values = discrete_gaussian(1000, 4)
    >>> values.dtype, values.shape
    (dtype('int64'), (4,))
    """
    scale = check_count("scale", scale)
    size = check_count("size", size, minimum=0)
    if scale > _LARGEST_SCALE:
        raise ValueError(f"scale must be at most 2^24, got {scale}; choose a coarser grid.")
    source = _Bits() if bits is None else bits
    result = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # About two of three proposals survive; draw in one go what is likely to be enough.
        batch = int(1.7 * (size - filled)) + 16
        low = source.below(scale, batch)
        low = low[_bernoulli_exp_fraction(low, scale, source)]
        magnitude = low + scale * _geometric_exp(len(low), source)
        negative = source.below(2, len(low)) == 1
        # Zero would otherwise be counted twice.
        keep = ~(negative & (magnitude == 0))
        magnitude, negative = magnitude[keep], negative[keep]
        # excess = q s + r, so excess^2 / (2 s^2) = q^2 / 2 + (2 q r s + r^2) / (2 s^2).
        q, r = np.divmod(np.abs(magnitude - scale), scale)
        rest = (q * q % 2) * scale * scale + 2 * q * r * scale + r * r
        units, rest = np.divmod(rest, 2 * scale * scale)
        accepted = _bernoulli_exp(q * q // 2 + units, rest, 2 * scale * scale, source)
        values = np.where(negative, -magnitude, magnitude)[accepted][: size - filled]
        result[filled : filled + len(values)] = values
        filled += len(values)
    return result


class NoiseSource:
    """Secret noise for one private fit.

    Parameters
    ----------
    secure : bool, default=False
        Whether releases must be discrete Gaussian on an integer grid, from operating-system bytes.
    seed : int, optional
        Makes the noise reproducible by anybody who knows the seed: for tests and simulations, not
        for private data.

    Examples
    --------
    >>> NoiseSource().private
    True
    >>> NoiseSource(seed=0).private
    False
    """

    def __init__(self, *, secure: bool = False, seed: Any = None) -> None:
        self.secure = bool(secure)
        self.private = seed is None
        entropy = secrets.randbits(256) if seed is None else seed
        if isinstance(entropy, np.random.Generator):
            self._generator = entropy
        else:
            # PCG64DXSM and not the default of NumPy: no stream is shared with other generators.
            self._generator = np.random.Generator(np.random.PCG64DXSM(entropy))
        self._bits = _Bits() if seed is None else _Bits(self._generator)

    @property
    def description(self) -> str:
        """What a certificate says about the generator."""
        if not self.private:
            return "seeded by the caller: reproducible, hence not private"
        if self.secure:
            return "operating-system bytes, exact discrete Gaussian on an integer grid"
        return "PCG64DXSM seeded by 256 bits of operating-system entropy, floating-point Gaussian"

    def protect(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """Return `values` plus floating-point noise N(0, scale^2) in each coordinate."""
        if self.secure:
            raise ValueError("a secure source gives discrete noise only; use protect_integers.")
        scale = check_positive("scale", scale)
        noisy: NDArray[np.float64] = values + scale * self._generator.standard_normal(values.shape)
        return noisy

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Return whole numbers plus the discrete Gaussian with the whole number `scale`."""
        noisy: NDArray[np.int64] = values + discrete_gaussian(scale, values.size, bits=self._bits)
        return noisy

    def draw_indices(self, n: int, size: int) -> NDArray[np.int64]:
        """Return secret indices, exactly uniform on 0, ..., n - 1.

        Where the sensitivity is averaged over a random choice of examples, that choice is part of
        what protects them, so it comes from the source of the noise.
        """
        return self._bits.below(check_count("n", n), check_count("size", size, minimum=0))

    def gumbel(self, size: int) -> NDArray[np.float64]:
        """Return `size` values of the standard Gumbel law, for the exponential mechanism."""
        return self._generator.gumbel(size=size)
