# SPDX-License-Identifier: BSD-3-Clause
"""The spread of columns over two windows of rows, and rows scaled by it.

Arrays
------
X : float64 or float32, shape (n * d,)
    Examples, row after row.
data, indices, indptr
    The arrays of a CSR matrix.
before, present : float64, shape (6, d)
    Moments of the previous and the current window; the current one is modified in place. For each
    column: the number of its values, the smallest and the largest, the sums of (value - `shift`)
    and of its square, and (dense rows) the sum of squared differences of successive values. A zero
    counts as a value that is not stored.
n_rows : float64, shape (2,)
    Number of rows in both windows.
shift : float64, shape (d,)
    The first value of each column; sums about it do not cancel.
last : float64, shape (d,)
    The last dense row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pairlearn.typing import Vector

#: A column must vary by at least `NARROWEST`, so that squares and sums of coefficients in its units
#: do not overflow. `_WIDEST` caps its range.
NARROWEST, _WIDEST = 1e-50, 1e300


def note_rows(
    X: Any, present: Vector, n_rows: Vector, shift: Vector, last: Vector, *, is_first: bool
) -> None:
    """Add dense rows to the current window."""
    rows = X.reshape(-1, len(shift)).astype(np.float64)
    if not len(rows):
        return
    counts, low, high, total, squares, jumps = present
    if is_first:
        shift[:] = last[:] = rows[0]
    if n_rows[1] == 0.0:
        low.fill(np.inf)
        high.fill(-np.inf)
    np.minimum(low, rows.min(axis=0), out=low)
    np.maximum(high, rows.max(axis=0), out=high)
    stored = rows != 0.0
    counts += np.count_nonzero(stored, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        excess = (rows - shift) * stored
        total += excess.sum(axis=0)
        squares += (excess * excess).sum(axis=0)
        steps = np.diff(rows, axis=0, prepend=last[np.newaxis])
        jumps += (steps * steps).sum(axis=0)
    last[:] = rows[-1]
    n_rows[1] += len(rows)


def note_csr(
    data: Any, indices: Any, n: int, before: Vector, present: Vector, n_rows: Vector, shift: Vector
) -> None:
    """Add the stored values of n rows to the current window."""
    stored = data != 0.0
    column, value = indices[stored], data[stored].astype(np.float64)
    seen, first = np.unique(column, return_index=True)
    fresh = present[0, seen] == 0.0
    present[1, seen[fresh]], present[2, seen[fresh]] = np.inf, -np.inf
    starts = fresh & (shift[seen] == 0.0) & (before[0, seen] == 0.0)
    shift[seen[starts]] = value[first[starts]]
    with np.errstate(over="ignore", invalid="ignore"):
        excess = value - shift[column]
        np.minimum.at(present[1], column, value)
        np.maximum.at(present[2], column, value)
        for row, amounts in ((0, 1.0), (3, excess), (4, excess * excess)):
            np.add.at(present[row], column, amounts)
    n_rows[1] += n


def _rarity(count: Vector, n: float, table: float, text: float) -> float:
    """Return how much rows are text: from 0 to 1 as the mean share of values falls.

    The share of stored values of a column falls from `table` to `text`, see
    `estimators.shared.scaling`.
    """
    known, stored = float(np.count_nonzero(count)), float(count.sum())
    if not stored > 0.0:
        return 0.0
    power = math.log(table * known * n / stored) / math.log(table / text)
    return min(max(power, 0.0), 1.0)


def revise(
    before: Vector,
    present: Vector,
    n_rows: Vector,
    shift: Vector,
    rule: tuple[float, ...],
    scale: Vector,
    centre: Vector,
) -> tuple[Vector, Vector, bool, float, int]:
    """Return new scales and centres, whether one changes, and the sum of scaled variances.

    The last result is a column that varies too little to be used, or -1.

    `rule` is: the share of its range that a scale is at least, the factor by which a spread must
    differ from its scale to change it (1 always changes it), the share of its size by which a
    column must vary, the mean shares of stored values of a table and of text, and the power of
    twice its share that the spread of a column of text is divided by.
    """
    floor, slack, threshold, table, text, rarity = rule
    n, count = float(n_rows.sum()), before[0] + present[0]
    low, high = np.full((2, len(scale)), np.inf) * [[1.0], [-1.0]]
    for window in (before, present):
        known = window[0] > 0.0
        low = np.where(known, np.minimum(low, window[1]), low)
        high = np.where(known, np.maximum(high, window[2]), high)
    low = np.where(count < n, np.minimum(low, 0.0), low)
    high = np.where(count < n, np.maximum(high, 0.0), high)
    power = _rarity(count, n, table, text)
    with np.errstate(all="ignore"):
        excess = before[3] + present[3]
        # Values that are not stored are zero.
        mean = (excess + count * shift) / n
        rest = shift - mean
        squares = before[4] + present[4] + 2.0 * rest * excess
        variance = (squares + count * rest * rest + (n - count) * mean * mean) / n
        width = np.minimum(high - low, _WIDEST)
        varies = (high > low) & (width > threshold * np.maximum(np.abs(low), np.abs(high)))
        narrow = np.flatnonzero(varies & (width < NARROWEST))
        varies &= width >= NARROWEST
        # Squares of extreme values overflow; the range then replaces the deviation.
        usual = (variance > 0.0) & (variance < np.inf)
        deviation = np.where(usual, np.minimum(np.sqrt(variance), width), width)
        share = np.minimum(1.0, 2.0 * count / n)
        spread = np.minimum(deviation / share ** (rarity * power), width)
        spread = np.maximum(spread, floor * (1.0 - power) * width)
        differs = (scale == 0.0) | (spread > slack * scale) | (slack * spread < scale)
        moves = varies & (differs | (slack == 1.0))
        new_scale, new_centre = np.where(moves, spread, scale), np.where(moves, mean, centre)
        changes = bool((moves & ((spread != scale) | (mean != centre))).any())
        total = float(((deviation[varies] / new_scale[varies]) ** 2).sum())
    return new_scale, new_centre, changes, total, int(narrow[-1]) if len(narrow) else -1


def change_of(before: Vector, now: Vector, *, keeps: bool, start: str) -> Vector:
    """Return the factor of each coefficient where the factors of columns change.

    If it `keeps`, the learned function is preserved: a coefficient is divided by the factor of its
    column. Otherwise `start` decides: a coefficient that started from "zero" shrinks with the
    factor of its column, and one that started in "scaled" units stays. One that was "given" in the
    user's units is converted once its column varies.
    """
    change, had = np.ones(len(now)), before > 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if keeps:
            change = np.where(had, before / now, change)
        elif start == "zero":
            change = np.where(had, np.minimum(now / before, 1.0), change)
        if start == "given":
            change = np.where(~had & (now > 0.0), 1.0 / now, change)
    return change


def least_jump(present: Vector, n: float, shift: Vector, floor: float) -> tuple[float, int]:
    """Return the least ratio of mean squared jumps to twice the variance, and its column.

    Both are of the n dense rows of the current window. The ratio is about 1 for independent rows,
    and about 0 for sorted ones. Columns whose variance comes from a few rare values are left out.
    """
    # The sums leave out zeros.
    zeros = n - present[0]
    with np.errstate(all="ignore"):
        mean = (present[3] - zeros * shift) / n
        square = (present[4] + zeros * shift * shift) / n
        variance = square - mean * mean
        width = present[2] - present[1]
        counts = (variance > (floor * width) ** 2) & (variance > 1e-12 * square)
        ratio = np.where(counts, present[5] / (2.0 * n * variance), np.inf)
    column = int(np.argmin(ratio))
    return (float(ratio[column]), column) if ratio[column] < np.inf else (math.inf, -1)


def scale_within(X: Any, centre: Vector, factor: Vector, bound: float, scaled: Any) -> None:
    """Fill `scaled` with (x - centre) * factor, clipped to [-bound, bound]."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = (X.reshape(-1, len(centre)) - centre) * factor
    scaled.reshape(value.shape)[:] = np.fmin(np.fmax(value, -bound), bound)


def scale_within_csr(
    data: Any, indices: Any, centre: Vector, factor: Vector, bound: float
) -> Vector:
    """Return stored values times their factors, clipped to `bound` around the centres.

    The rows are not centred: values that are not stored stay zero.
    """
    middle = (centre * factor)[indices]
    value = data * factor[indices] - middle
    return np.asarray(np.fmin(np.fmax(value, -bound), bound) + middle)
