# SPDX-License-Identifier: BSD-3-Clause
"""Sample the secret noise of private releases, straight from the bytes of the operating system.

No generator stands in between, so no attacker can reconstruct its state. The discrete Gaussian is
sampled exactly with integer arithmetic only (Canonne, Kamath and Steinke, 2020).
"""

from __future__ import annotations

from os import urandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Mask
from pairlearn.validation import check_count

#: Largest scale of the discrete Gaussian. It keeps every intermediate value below 2^63 while
#: |X| < 2^13 scale. A proposal satisfies this with probability at least 1 - exp(-2^13).
LARGEST_SCALE = 1 << 24


class NoiseSource:
    """Secret noise for one private fit.

    Parameters
    ----------
    seed : int, optional
        Makes the noise reproducible: for tests and simulations, not for private data.

    Examples
    --------
    >>> NoiseSource().private, NoiseSource(seed=0).private
    (True, False)
    """

    @classmethod
    def made_from(cls, seed: Any) -> NoiseSource:
        """Return a new source, or `seed` itself if an auditor passed a source as the seed."""
        return seed if isinstance(seed, NoiseSource) else cls(seed=seed)

    def __init__(self, *, seed: Any = None) -> None:
        self.private = seed is None
        self._bytes = urandom
        if isinstance(seed, np.random.Generator):
            self._bytes = seed.bytes
        elif seed is not None:
            # Not NumPy's default generator: the same seed elsewhere must not give this stream.
            try:
                self._bytes = np.random.Generator(np.random.PCG64DXSM(seed)).bytes
            except (TypeError, ValueError):
                raise ValueError(
                    "a seed (random_state) must be a whole number of at least 0 or a "
                    f"numpy.random.Generator, got {seed!r}; leave it at None for private data."
                ) from None

    @property
    def description(self) -> str:
        """The certificate's description of the generator."""
        if not self.private:
            return "seeded by the caller: reproducible, hence not private"
        return "operating-system bytes, exact discrete Gaussian on an integer grid"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a NoiseSource cannot be copied or pickled: two copies would give the same noise; "
            "make a new one."
        )

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Return integers plus discrete Gaussian noise with the integer parameter `scale`."""
        noisy: NDArray[np.int64] = values + self._discrete(scale, values.size)
        return noisy

    def draw_indices(self, n: int, size: int) -> NDArray[np.int64]:
        """Return secret indices, exactly uniform on 0, ..., n - 1.

        Where the accounting averages over a random choice of examples, that choice is part of the
        protection. So it comes from the source of the noise.
        """
        return self._below(check_count("n", n), check_count("size", size, minimum=0))

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Return a secret, exactly uniform permutation of n rows: the order of random keys."""
        while True:
            keys = self._words(check_count("n", n, minimum=0))
            order = np.argsort(keys)
            if not (np.diff(keys[order]) == 0).any():
                return order.astype(np.int64)

    def accept(self, numerator: int, denominator: int) -> bool:
        """Return True with probability exp(-numerator/denominator), exactly.

        Runs von Neumann's series in integers of any size, once for each unit of the exponent and
        once for the remainder (Algorithm 1 of Canonne, Kamath and Steinke).
        """
        units, rest = divmod(numerator, denominator)
        return all(self._accept_fraction(1, 1) for _ in range(units)) and self._accept_fraction(
            rest, denominator
        )

    def _accept_fraction(self, a: int, b: int) -> bool:
        k = 1
        while self._below_large(b * k) < a:
            k += 1
        return k % 2 == 1

    def _words(self, size: int) -> NDArray[np.uint64]:
        return np.frombuffer(self._bytes(8 * size), dtype=np.uint64)

    def _below(self, bound: int, size: int) -> NDArray[np.int64]:
        """Return `size` integers, exactly uniform on 0, ..., bound - 1 (bound < 2^63)."""
        limit = np.uint64((1 << 64) // bound * bound - 1)  # words above it would favour some
        words = self._words(size)
        while (odd := words > limit).any():
            words = np.concatenate([words[~odd], self._words(int(odd.sum()))])
        return (words % np.uint64(bound)).astype(np.int64)

    def _below_large(self, bound: int) -> int:
        """Return one integer, exactly uniform on 0, ..., bound - 1, for a bound of any size."""
        n_bits = bound.bit_length()
        while True:
            drawn = int.from_bytes(self._bytes(-(-n_bits // 8)), "little") & ((1 << n_bits) - 1)
            if drawn < bound:
                return drawn

    def _bernoulli_exp(self, numerator: NDArray[np.int64], denominator: int) -> Mask:
        """Sample Bernoulli(exp(-a/b)) exactly for 0 <= a <= b.

        Von Neumann's series: draw A_k ~ Bernoulli(a / (b k)) for k = 1, 2, ... until the first 0;
        the number of draws is odd with probability exp(-a/b).
        """
        odd = np.zeros(len(numerator), dtype=np.bool_)
        alive, k = np.arange(len(numerator)), 1
        while len(alive):
            odd[alive] = k % 2 == 1
            alive = alive[self._below(denominator * k, len(alive)) < numerator[alive]]
            k += 1
        return odd

    def _geometric_exp(self, size: int) -> NDArray[np.int64]:
        """Sample the number of successes of Bernoulli(1/e) before the first failure."""
        counts, alive = np.zeros(size, dtype=np.int64), np.arange(size)
        while len(alive):
            alive = alive[self._bernoulli_exp(np.ones(len(alive), dtype=np.int64), 1)]
            counts[alive] += 1
        return counts

    def _discrete(self, scale: int, size: int) -> NDArray[np.int64]:
        r"""Sample the discrete Gaussian, P[X = x] proportional to exp(-x^2 / (2 scale^2)), exactly.

        Rejection from the discrete Laplace law P[Y = y] proportional to exp(-\|y\| / scale): y is
        kept with probability exp(-(\|y\| - scale)^2 / (2 scale^2)) (Algorithm 3 of Canonne, Kamath
        and Steinke with t = s). Integer arithmetic only.
        """
        if check_count("scale", scale) > LARGEST_SCALE:
            raise ValueError(f"scale must be at most 2^24, got {scale}; choose a coarser grid.")
        found = np.empty(0, dtype=np.int64)
        while len(found) < size:
            # About two of three proposals survive; a factor of 1.7 is usually enough.
            low = self._below(scale, int(1.7 * (size - len(found))) + 16)
            low = low[self._bernoulli_exp(low, scale)]
            magnitude = low + scale * self._geometric_exp(len(low))
            negative = self._below(2, len(low)) == 1
            # Zero would otherwise be counted twice.
            keep = ~(negative & (magnitude == 0))
            magnitude, negative = magnitude[keep], negative[keep]
            # excess = q s + r, so excess^2 / (2 s^2) = q^2 / 2 + (2 q r s + r^2) / (2 s^2).
            q, r = np.divmod(np.abs(magnitude - scale), scale)
            rest = (q * q % 2) * scale * scale + 2 * q * r * scale + r * r
            units, rest = np.divmod(rest, 2 * scale * scale)
            # exp(-units) is the probability that the first `units` draws of Bernoulli(1/e) succeed.
            accepted = self._bernoulli_exp(rest, 2 * scale * scale)
            accepted &= self._geometric_exp(len(rest)) >= q * q // 2 + units
            values = np.where(negative, -magnitude, magnitude)[accepted]
            found = np.concatenate([found, values])
        return found[:size]
