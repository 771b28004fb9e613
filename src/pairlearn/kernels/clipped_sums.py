# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of clipped pair gradients, for private descent (lemma 22 in ``docs/privacy/lemmas.md``).

The rows of a batch sit in cells, rows cuts[c], ..., cuts[c + 1] - 1, and each row meets all others
of its cell once. A pair whose gradient g is longer than C counts as (C / |g|) g. A pair counts
nothing if a label is NaN, or if its slope is not a finite number: an error would tell of the data.

Arrays (float64)
------
X : shape (n * d,)
    Dense rows, one after the other.
y : shape (n,)
    Labels, signs or targets; NaN for a row that is not there.
cuts : int64, shape (n_cells + 1,)
    The borders of the cells.
w : shape (d,) or (d * d,)
    The weights, or the rows of the matrix of a metric.
cell, total : as w
    Room for the sum of a cell; the sum of all, modified in place.
"""

import math

import numpy as np

from pairlearn.kernels._native import call_scalar, kernel, part

#: The square of a length begins here: squares of numbers below 1e-154 underflow, and a pair with a
#: large slope would be taken for a short one. Other lengths stay the same to the last bit.
_LEAST_SQUARE = 1e-300


@part
def _clipped(slope, unit, clip):
    """Return the slope of a gradient slope * v, with |v| = unit, after clipping."""
    if not abs(slope) < np.inf:
        return 0.0
    length = abs(slope) * unit
    return slope * (clip / length) if length > clip else slope


@kernel
def add_clipped_differences(
    X, y, cuts, w, clip, slope_address, parameter, all_pairs, cell, total
):  # fmt: skip
    """Add the clipped gradients l'(<w, v>) v with v = x - x', the larger label first."""
    d = np.uintp(len(w))
    for c in range(len(cuts) - 1):
        for k in range(d):
            cell[k] = 0.0
        for one in range(cuts[c], cuts[c + 1]):
            for other in range(cuts[c], one):
                higher = y[one] >= y[other]
                i = np.uintp(one if higher else other)
                j = np.uintp(other if higher else one)
                if not (y[i] > y[j] or (all_pairs and y[i] == y[j])):
                    continue
                a = i * d
                b = j * d
                score = 0.0
                squared = _LEAST_SQUARE
                for k in range(d):
                    v = X[a + k] - X[b + k]
                    score += w[k] * v
                    squared += v * v
                slope = call_scalar(slope_address, score, y[i], y[j], parameter)
                slope = _clipped(slope, math.sqrt(squared), clip)
                for k in range(d):
                    cell[k] += slope * (X[a + k] - X[b + k])
        for k in range(d):
            total[k] += cell[k]


@kernel
def add_clipped_squares(
    X, y, cuts, w, clip, slope_address, parameter, different_weight, cell, total
):  # fmt: skip
    """Add the clipped gradients a l'(v' W v) v v' with v = x - x'; a is 1 for equal labels."""
    d = np.uintp(len(X)) // np.uintp(len(y))
    for c in range(len(cuts) - 1):
        for k in range(np.uintp(len(w))):
            cell[k] = 0.0
        for one in range(cuts[c], cuts[c + 1]):
            for other in range(cuts[c], one):
                higher = y[one] >= y[other]
                i = np.uintp(one if higher else other)
                j = np.uintp(other if higher else one)
                if not y[i] >= y[j]:
                    continue
                a = i * d
                b = j * d
                score = 0.0
                squared = _LEAST_SQUARE
                for k in range(d):
                    v = X[a + k] - X[b + k]
                    squared += v * v
                    inner = 0.0
                    for q in range(d):
                        inner += w[k * d + q] * (X[a + q] - X[b + q])
                    score += v * inner
                slope = call_scalar(slope_address, score, y[i], y[j], parameter)
                if y[i] > y[j]:
                    slope *= different_weight
                slope = _clipped(slope, squared, clip)
                for k in range(d):
                    v = slope * (X[a + k] - X[b + k])
                    for q in range(d):
                        cell[k * d + q] += v * (X[a + q] - X[b + q])
        for k in range(np.uintp(len(w))):
            total[k] += cell[k]
