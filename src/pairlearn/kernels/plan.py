# SPDX-License-Identifier: BSD-3-Clause
"""Make plans: expand a random key to indices, and find the active pairs.

Arrays
------
key : uint64
    Drawn by the caller's generator, one per array of indices.
left, right : int32 or int64, shape (n_steps,)
    The examples that are paired at each step.
active : int32, shape (n_steps + 1,)
    Receives the positions of the steps whose pair can change the parameter.
"""

import numpy as np

from pairlearn.kernels._native import kernel
from pairlearn.kernels.splitmix import STRIDE, below, mixed


@kernel
def draw_indices(key, n, out):
    """Fill `out` with i.i.d. uniform indices below `n` (n < 2**32).

    SplitMix64 of the key and a counter gives 64 bits u, and the index is floor(u n / 2**64):
    its probability differs from 1/n by less than 2**-64.
    """
    bound = np.uint64(n)
    for k in range(len(out)):
        out[k] = below(mixed(key + np.uint64(k + 1) * STRIDE), bound)


@kernel
def draw_pairs(key, n, left, right):
    """Fill `left` and `right` with uniform pairs of distinct indices below `n` <= 2**20.

    One number u of 64 bits gives both. The whole part of u n / 2**64 is the left index. The
    fraction is uniform again and gives the right one among the n - 1 others. Both use the upper 40
    bits, so that a product fits. The probability of a pair differs from 1/(n (n - 1)) by a factor
    of less than 1 + 2**-19.
    """
    bound = np.uint64(n)
    others = np.uint64(n - 1)
    low, high = np.uint64(24), np.uint64(40)
    for k in range(len(left)):
        z = mixed(key + np.uint64(k + 1) * STRIDE)
        i = ((z >> low) * bound) >> high
        z = z * bound
        j = ((z >> low) * others) >> high
        left[k] = i
        right[k] = j + np.uint64(j >= i)


@kernel
def skip_own_index(left, right):
    """Turn uniform indices below n - 1 in `right` into uniform indices other than `left`."""
    for t in range(len(left)):
        right[t] += right[t] >= left[t]


@kernel
def find_active(left, right, y, one_sided, all_pairs, active):
    """Write the positions of the active pairs to `active`, without a branch; return their number.

    A pair is active if its labels differ (`one_sided`: if the left one is larger), or always. There
    is one loop for each case, since a condition that covers all three takes twice as long.
    """
    count = 0
    if all_pairs:
        for t in range(len(left)):
            active[t] = t
        count = len(left)
    elif one_sided:
        for t in range(len(left)):
            active[count] = t
            count += y[np.uintp(left[t])] > y[np.uintp(right[t])]
    else:
        for t in range(len(left)):
            active[count] = t
            count += y[np.uintp(left[t])] != y[np.uintp(right[t])]
    return count


@kernel
def meet_latest_of_group(left, group, latest, right):
    """Pair each index with the previous one drawn from its group, or with itself.

    `group` (n,) is the group of each example. `latest` holds the last index drawn from each group,
    -1 for none, and is modified in place.
    """
    for t in range(len(left)):
        i = left[t]
        g = np.uintp(group[np.uintp(i)])
        previous = latest[g]
        right[t] = previous if previous >= 0 else i
        latest[g] = i
