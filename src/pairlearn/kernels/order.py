# SPDX-License-Identifier: BSD-3-Clause
"""Running sums that show whether the labels of a stream are in random order."""

from pairlearn.kernels._native import kernel

#: Positions in `sums`.
SHIFT, LAST, LOW, HIGH, TOTAL, SQUARES, JUMPS = range(7)
N_BLOCK, BLOCK_TOTAL, N_MEANS, MEANS, SQUARED_MEANS = range(7, 12)
N_SUMS = 12


@kernel
def note_labels(y, block, is_first, sums):
    """Add labels to `sums`, of shape (N_SUMS,).

    The sums are: the first label, about which sums are taken, and the last; the smallest and the
    largest; the sums of labels, of squares and of squared differences of successive labels; the
    count and the sum of labels in the unfinished block; and the count, sum and sum of squares of
    the means of full blocks of `block` labels.
    """
    if is_first:
        sums[SHIFT] = sums[LAST] = sums[LOW] = sums[HIGH] = y[0]
    shift, last, low, high = sums[SHIFT], sums[LAST], sums[LOW], sums[HIGH]
    total, squares, jumps = sums[TOTAL], sums[SQUARES], sums[JUMPS]
    n, within = sums[N_BLOCK], sums[BLOCK_TOTAL]
    for value in y:
        low, high = min(low, value), max(high, value)
        excess, jump = value - shift, value - last
        last = value
        total += excess
        squares += excess * excess
        jumps += jump * jump
        within += excess
        n += 1.0
        if n == block:
            mean = within / block
            sums[N_MEANS] += 1.0
            sums[MEANS] += mean
            sums[SQUARED_MEANS] += mean * mean
            n, within = 0.0, 0.0
    sums[LAST], sums[LOW], sums[HIGH] = last, low, high
    sums[TOTAL], sums[SQUARES], sums[JUMPS] = total, squares, jumps
    sums[N_BLOCK], sums[BLOCK_TOTAL] = n, within
