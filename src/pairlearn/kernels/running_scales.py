# SPDX-License-Identifier: BSD-3-Clause
"""Track the spread of columns while rows arrive, and scale rows by it.

Arrays
------
X : float64 or float32, shape (n * d,)
    Examples, row after row.
data, indices, indptr
    The arrays of a CSR matrix.
before, present : float64, shape (6, d)
    Moments of the previous and the current window; the current one is modified in place. For each
    column: the number of its values, the smallest and the largest, the sums of (value - `shift`)
    and of its square, and (dense rows) the sum of squared differences of successive values.
n_rows : float64, shape (2,)
    Number of rows in both windows.
shift : float64, shape (d,)
    The first value of each column; sums about it do not cancel.
last : float64, shape (d,)
    The last dense row.
"""

import math

import numpy as np

from pairlearn.kernels._native import as_written, kernel, part

#: A column must vary by at least `NARROWEST`, so that squares and sums of coefficients in its units
#: do not overflow. `_WIDEST` caps its range.
NARROWEST, _WIDEST = 1e-50, 1e300


@kernel
def note_rows(X, counts, low, high, total, squares, jumps, n_rows, shift, last, is_first):
    """Add dense rows to the current window, whose moments are separate arrays."""
    d = np.uintp(len(shift))
    n = np.uintp(len(X)) // d
    if n == 0:
        return
    if is_first:
        for k in range(d):
            shift[k] = np.float64(X[k])
            last[k] = np.float64(X[k])
    if n_rows[1] == 0.0:
        for k in range(d):
            low[k] = np.inf
            high[k] = -np.inf
    for i in range(n):
        base = i * d
        for k in range(d):
            value = np.float64(X[base + k])
            lowest, highest = low[k], high[k]
            low[k] = value if value < lowest else lowest
            high[k] = value if value > highest else highest
            # A zero counts as not stored, as in sparse rows.
            stored = 1.0 if value != 0.0 else 0.0
            counts[k] += stored
            excess = stored * (value - shift[k])
            total[k] += excess
            squares[k] += excess * excess
            jump = value - last[k]
            jumps[k] += jump * jump
            last[k] = value
    n_rows[1] += n


@kernel
def note_csr(data, indices, begin, stop, n, before, present, n_rows, shift):
    """Add the stored values from `begin` to `stop`, which are n rows, to the current window.

    A zero that is stored counts as one that is not.
    """
    for p in range(begin, stop):
        k = indices[p]
        value = np.float64(data[p])
        if value == 0.0:
            continue
        if present[0, k] == 0.0:
            present[1, k] = value
            present[2, k] = value
            if shift[k] == 0.0 and before[0, k] == 0.0:
                shift[k] = value
        present[0, k] += 1.0
        present[1, k] = min(present[1, k], value)
        present[2, k] = max(present[2, k], value)
        excess = value - shift[k]
        present[3, k] += excess
        present[4, k] += excess * excess
    n_rows[1] += n


@part
def _spread(before, present, n, shift, k):
    """Return smallest, largest, mean and variance of a column over both windows, n rows."""
    count = before[0, k] + present[0, k]
    low, high = np.inf, -np.inf
    if before[0, k] > 0.0:
        low, high = before[1, k], before[2, k]
    if present[0, k] > 0.0:
        low, high = min(low, present[1, k]), max(high, present[2, k])
    if count < n:
        low, high = min(low, 0.0), max(high, 0.0)
    excess = before[3, k] + present[3, k]
    # Values that are not stored are zero.
    mean = (excess + count * shift[k]) / n
    rest = shift[k] - mean
    squares = before[4, k] + present[4, k] + 2.0 * rest * excess
    squares += count * rest * rest + (n - count) * mean * mean
    return low, high, mean, squares / n


@part
def _rarity(before, present, n, table, text):
    """Return how much rows are text: from 0 to 1 as the mean share of values falls.

    The share of stored values of a column falls from `table` to `text`, see
    `estimators.shared.scaling`. Values that are not stored are zero.
    """
    known, stored = 0.0, 0.0
    for k in range(before.shape[1]):
        count = before[0, k] + present[0, k]
        known += 1.0 if count > 0.0 else 0.0
        stored += count
    if not stored > 0.0:
        return 0.0
    power = math.log(table * known * n / stored) / math.log(table / text)
    return min(max(power, 0.0), 1.0)


@kernel
def revise(before, present, n_rows, shift, rule, scale, centre, new_scale, new_centre):
    """Compute the scales; return whether one changes, and the sum of scaled variances.

    The third result is a column that varies too little to be used, or -1.

    `rule` is: the share of its range that a scale is at least, the factor by which a spread must
    differ from its scale to change it (1 always changes it), the share of its size by which a
    column must vary, the mean shares of stored values of a table and of text, and the power of
    twice its share that the spread of a column of text is divided by.
    """
    floor, slack, threshold, table, text, rarity = rule
    n = n_rows[0] + n_rows[1]
    power = _rarity(before, present, n, table, text)
    floor *= 1.0 - power
    changes = False
    total = 0.0
    narrow = -1
    for k in range(len(scale)):
        new_scale[k] = scale[k]
        new_centre[k] = centre[k]
        low, high, mean, variance = _spread(before, present, n, shift, k)
        if not high > low:
            continue
        width = min(high - low, _WIDEST)
        if width <= threshold * max(abs(low), abs(high)):
            continue
        if width < NARROWEST:
            narrow = k
            continue
        # Squares of extreme values overflow; the range then replaces the deviation.
        deviation = width
        if 0.0 < variance < np.inf:
            deviation = min(math.sqrt(variance), width)
        share = min(1.0, 2.0 * (before[0, k] + present[0, k]) / n)
        found = max(min(deviation / share ** (rarity * power), width), floor * width)
        if scale[k] == 0.0 or slack == 1.0 or found > slack * scale[k] or slack * found < scale[k]:
            changes = changes or found != scale[k] or mean != centre[k]
            new_scale[k] = found
            new_centre[k] = mean
        total += (deviation / new_scale[k]) ** 2
    return changes, total, narrow


@as_written
def follow(new_scale, new_centre, shift, norm, keeps, start, scale, centre, factor, change):
    """Take over scales; fill `change` with the factor of each coefficient.

    Where the sum of values overflows, the centre is `shift`, the first value.

    `norm` is the root of the sum of scaled variances. If `keeps`, the learned function is
    preserved: a coefficient is divided by the factor of its column. Otherwise `start` decides: a
    coefficient that started from zero (0) shrinks with the factor of its column, and one that
    started in scaled units (1) stays. One that was given in the user's units (2) is converted once
    its column varies.
    """
    for k in range(len(scale)):
        before = factor[k]
        now = 1.0 / (new_scale[k] * norm) if new_scale[k] > 0.0 else 0.0
        change[k] = 1.0
        if before > 0.0:
            if keeps:
                change[k] = before / now
            elif start == 0:
                ratio = now / before
                change[k] = ratio if ratio < 1.0 else 1.0
        elif start == 2 and now > 0.0:
            change[k] = 1.0 / now
        scale[k] = new_scale[k]
        centre[k] = new_centre[k] if math.isfinite(new_centre[k]) else shift[k]
        factor[k] = now


@as_written
def change_units(change, w, weighted_sum, left_iterate, total):
    """Multiply a parameter and its sums by `change`; return its squared norm and their sum.

    Both are infinite or NaN if they overflow the type of the parameter.
    """
    real = w.dtype.type
    norm_squared, sums, totals = real(0.0), real(0.0), 0.0
    for k in range(len(change)):
        w[k] *= change[k]
        weighted_sum[k] *= change[k]
        left_iterate[k] *= change[k]
        total[k] *= change[k]
        norm_squared += w[k] * w[k]
        sums += weighted_sum[k]
        totals += total[k]
    return norm_squared, sums + totals


@kernel
def least_jump(present, n, shift, floor):
    """Return the least ratio of mean squared jumps to twice the variance, and its column.

    Both are of the n dense rows of the current window. The ratio is about 1 for independent rows,
    and about 0 for sorted ones. Columns whose variance comes from a few rare values are left out.
    """
    least, column = np.inf, -1
    for k in range(present.shape[1]):
        # The sums leave out zeros.
        zeros = n - present[0, k]
        mean = (present[3, k] - zeros * shift[k]) / n
        square = (present[4, k] + zeros * shift[k] * shift[k]) / n
        variance = square - mean * mean
        width = present[2, k] - present[1, k]
        if variance > (floor * width) ** 2 and variance > 1e-12 * square:
            ratio = present[5, k] / (2.0 * n * variance)
            if ratio < least:
                least, column = ratio, k
    return least, column


@kernel
def scale_within(X, centre, factor, bound, scaled):
    """Fill `scaled` with (x - centre) * factor, clipped to [-bound, bound]."""
    d = np.uintp(len(centre))
    for i in range(np.uintp(len(X)) // d):
        base = i * d
        for k in range(d):
            value = (np.float64(X[base + k]) - centre[k]) * factor[k]
            value = value if value > -bound else -bound
            scaled[base + k] = value if value < bound else bound


@kernel
def scale_within_csr(data, indices, centre, factor, bound, scaled):
    """Fill `scaled` with stored values times their factors, clipped to `bound` around the centres.

    The rows are not centred: values that are not stored stay zero.
    """
    for p in range(len(data)):
        k = indices[p]
        middle = centre[k] * factor[k]
        value = np.float64(data[p]) * factor[k] - middle
        scaled[p] = min(max(value, -bound), bound) + middle
