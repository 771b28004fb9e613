# SPDX-License-Identifier: BSD-3-Clause
"""Sample the secret noise of private releases, straight from the bytes of the operating system.

No generator stands in between, so no attacker can reconstruct its state. The discrete Gaussian is
sampled exactly with integer arithmetic only (Canonne, Kamath and Steinke, 2020).
"""

from __future__ import annotations

import math
import threading
from os import getpid, urandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Mask
from pairlearn.validation import check_count

#: Largest scale of the discrete Gaussian. It keeps every intermediate value below 2^63 while
#: |X| < 2^13 scale. A proposal satisfies this with probability at least 1 - exp(-2^13).
LARGEST_SCALE = 1 << 24

_NOTHING = np.empty(0, dtype=np.int64)
#: `NoiseSource._discrete` draws at least this many values at once.
_DRAWN_AT_ONCE = 128


class _Bits:
    """Uniform integers from operating-system bytes, or from a seeded generator in tests."""

    def __init__(self, generator: np.random.Generator | None = None) -> None:
        self._generator = generator

    def below(self, bound: int, size: int) -> NDArray[np.int64]:
        """Return `size` integers, exactly uniform on 0, ..., bound - 1 (bound < 2^63)."""
        if bound & (bound - 1) == 0:
            # A power of two: the last bits of a word are uniform as they are.
            return (self._words(size) & np.uint64(bound - 1)).astype(np.int64)
        limit = (1 << 64) - (1 << 64) % bound
        result = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            words = self._words(size - filled)
            words = words[words < np.uint64(limit)]
            result[filled : filled + len(words)] = (words % np.uint64(bound)).astype(np.int64)
            filled += len(words)
        return result

    def below_large(self, bound: int) -> int:
        """Return one integer, exactly uniform on 0, ..., bound - 1, for a bound of any size."""
        n_bits = bound.bit_length()
        while True:
            words: list[int] = self._words(-(-n_bits // 64)).tolist()
            number = sum(word << (64 * k) for k, word in enumerate(words)) & ((1 << n_bits) - 1)
            if number < bound:
                return number

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Return a uniform permutation of n items: the order of n random keys without ties."""
        while True:
            keys = self._words(n)
            order = np.argsort(keys)
            if not (np.diff(keys[order]) == 0).any():
                return order.astype(np.int64)

    def _words(self, size: int) -> NDArray[np.uint64]:
        if self._generator is not None:
            return self._generator.integers(0, 1 << 64, size=size, dtype=np.uint64)
        return np.frombuffer(urandom(8 * size), dtype=np.uint64)


#: 20! / k! for k = 20, ..., 0.
_SHARES = np.array([math.factorial(20) // math.factorial(k) for k in range(20, -1, -1)])


def _first_failure(size: int, bits: _Bits) -> NDArray[np.int64]:
    """Sample exactly the first k = 1, 2, ... at which a draw with probability 1/k fails.

    It exceeds k with probability 1/k!, so one uniform integer below 20! decides up to k = 20.
    Beyond 20 the draws are made one by one.
    """
    drawn = bits.below(math.factorial(20), size)
    first = len(_SHARES) - np.searchsorted(_SHARES, drawn, side="right")
    for place in np.flatnonzero(first == len(_SHARES)).tolist():
        while bits.below(int(first[place]), 1)[0] == 0:
            first[place] += 1
    return first


def _bernoulli_exp_fraction(numerator: NDArray[np.int64], denominator: int, bits: _Bits) -> Mask:
    """Sample Bernoulli(exp(-a/b)) exactly for 0 <= a <= b.

    Von Neumann's series: draw A_k ~ Bernoulli(a / (b k)) for k = 1, 2, ... until the first 0; the
    number of draws is odd with probability exp(-a/b). Each A_k is the product of two independent
    draws, with probabilities a/b and 1/k.
    """
    first = _first_failure(len(numerator), bits)
    # Where a = b the draws with probability a/b never fail.
    alive = np.flatnonzero(numerator < denominator)
    k = 1
    while len(alive):
        success = bits.below(denominator, len(alive)) < numerator[alive]
        first[alive[~success]] = k
        k += 1
        alive = alive[success]
        alive = alive[first[alive] > k]
    return np.asarray(first % 2 == 1)


def _bernoulli_exp(
    whole: NDArray[np.int64], numerator: NDArray[np.int64], denominator: int, bits: _Bits
) -> Mask:
    """Sample Bernoulli(exp(-(whole + a/b))) exactly, for whole >= 0 and 0 <= a <= b."""
    result = _bernoulli_exp_fraction(numerator, denominator, bits)
    alive = np.flatnonzero(result & (whole > 0))
    # exp(-whole) is the probability that the first `whole` draws of Bernoulli(1/e) all succeed.
    result[alive] = _geometric_exp(len(alive), bits) >= whole[alive]
    return result


def _geometric_exp(size: int, bits: _Bits) -> NDArray[np.int64]:
    """Sample the number of successes of Bernoulli(1/e) before the first failure.

    The failures split one long series of trials into independent counts.
    """
    counts = np.empty(size, dtype=np.int64)
    filled, before = 0, 0
    while filled < size:
        # A count takes 1 / (1 - 1/e) = 1.58 trials on average; 1.7 is usually enough.
        trials = int(1.7 * (size - filled)) + 16
        success = _bernoulli_exp_fraction(np.ones(trials, dtype=np.int64), 1, bits)
        failures = np.flatnonzero(~success)
        lengths = np.diff(failures, prepend=-1) - 1
        lengths[:1] += before
        # Successes after the last failure belong to the next count.
        before = trials - 1 - failures[-1] if len(failures) else before + trials
        taken = lengths[: size - filled]
        counts[filled : filled + len(taken)] = taken
        filled += len(taken)
    return counts


def discrete_gaussian(scale: int, size: int, *, bits: _Bits | None = None) -> NDArray[np.int64]:
    r"""Sample the discrete Gaussian, P[X = x] proportional to exp(-x^2 / (2 scale^2)), exactly.

    Rejection from the discrete Laplace law P[Y = y] proportional to exp(-\|y\| / scale):
    y is kept with probability exp(-(\|y\| - scale)^2 / (2 scale^2)), because
    -y^2/(2 s^2) + \|y\|/s = -(\|y\| - s)^2/(2 s^2) + 1/2 (Algorithm 3 of Canonne, Kamath and
    Steinke with t = s). Integer arithmetic only.

    `scale` is an integer from 1 to 2^24. `bits` are bytes of the operating system by default.
    """
    scale = check_count("scale", scale)
    size = check_count("size", size, minimum=0)
    if scale > LARGEST_SCALE:
        raise ValueError(f"scale must be at most 2^24, got {scale}; choose a coarser grid.")
    source = _Bits() if bits is None else bits
    result = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # About two of three proposals survive; a factor of 1.7 is usually enough.
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
        generator = None
        if isinstance(seed, np.random.Generator):
            generator = seed
        elif seed is not None:
            # Not NumPy's default generator: the same seed elsewhere must not give this stream.
            try:
                generator = np.random.Generator(np.random.PCG64DXSM(seed))
            except (TypeError, ValueError):
                raise ValueError(
                    "a seed (random_state) must be a whole number of at least 0 or a "
                    f"numpy.random.Generator, got {seed!r}; leave it at None for private data."
                ) from None
        self._bits = _Bits(generator)
        #: Unused noise by scale.
        self._spare: dict[int, NDArray[np.int64]] = {}
        self._process, self._lock = getpid(), threading.Lock()

    @property
    def description(self) -> str:
        """The certificate's description of the generator."""
        if not self.private:
            return "seeded by the caller: reproducible, hence not private"
        return "operating-system bytes, exact discrete Gaussian on an integer grid"

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Return integers plus discrete Gaussian noise with the integer parameter `scale`."""
        noisy: NDArray[np.int64] = values + self._discrete(scale, values.size)
        return noisy

    def _discrete(self, scale: int, size: int) -> NDArray[np.int64]:
        """Return discrete noise; no value is ever given out twice.

        Ten values cost as much to draw as a hundred, and the releases of a fit are small and share
        one scale. So the source draws a batch and keeps the rest for later calls. The lock and the
        process check keep threads and forked processes from using the same values.
        """
        with self._lock:
            if getpid() != self._process:
                self._process, self._spare = getpid(), {}
            spare = self._spare.get(scale, _NOTHING)
            if len(spare) < size:
                wanted = max(size - len(spare), _DRAWN_AT_ONCE)
                spare = np.concatenate([spare, discrete_gaussian(scale, wanted, bits=self._bits)])
            self._spare[scale] = spare[size:]
            return spare[:size]

    def __reduce__(self) -> Any:
        raise TypeError(
            "a NoiseSource cannot be copied or pickled: two copies would give the same noise; "
            "make a new one."
        )

    def draw_indices(self, n: int, size: int) -> NDArray[np.int64]:
        """Return secret indices, exactly uniform on 0, ..., n - 1.

        Where the accounting averages over a random choice of examples, that choice is part of the
        protection. So it comes from the source of the noise.
        """
        return self._bits.below(check_count("n", n), check_count("size", size, minimum=0))

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Return a secret, exactly uniform permutation of n rows."""
        return self._bits.permutation(check_count("n", n, minimum=0))

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
        while self._bits.below_large(b * k) < a:
            k += 1
        return k % 2 == 1
