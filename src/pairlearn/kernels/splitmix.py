# SPDX-License-Identifier: BSD-3-Clause
"""SplitMix64: 64 random bits from each number of an arithmetic sequence."""

import numpy as np

from pairlearn.kernels._native import part

#: The difference of successive numbers of the sequence.
STRIDE = np.uint64(0x9E3779B97F4A7C15)


@part
def mixed(z):
    """Return the random bits of a number."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@part
def below(bits, bound):
    """Return the index floor(u bound / 2**64) for 64 random bits u; bound < 2**32."""
    half = np.uint64(32)
    low = ((bits & np.uint64(0xFFFFFFFF)) * bound) >> half
    return ((bits >> half) * bound + low) >> half
