# SPDX-License-Identifier: BSD-3-Clause
"""Scores of the rows of a table, the bins that they fall into, and what each bin holds.

Sums keep their order and nothing is fused, so that a table by rows and the same table by columns
have the same bits.
"""

import numpy as np

from pairlearn.kernels._native import as_written, part_as_written

#: Rows whose scores stay in the nearest cache while all columns are added to them.
HEIGHT = 512
#: What is known of a cell: examples, their weight, the first score, the sum of what the scores
#: exceed it by, the sum of squares about the mean, and the extremes.
COUNT, WEIGHT, FIRST, EXCESS, SQUARES, LOW, HIGH, N_FACTS = range(8)


@part_as_written
def _search(edges, scores, begin, m, places):
    """Fill `places` with the number of edges that are not above each score, without branches."""
    zero, one = np.uintp(0), np.uintp(1)
    for i in range(m):
        places[i] = zero
    left = np.uintp(len(edges))
    while left > zero:
        half = (left + one) // np.uintp(2)
        for i in range(m):
            below = edges[places[i] + half - one] <= scores[begin + i]
            places[i] += half if below else zero
        # Of an odd number the middle edge is known, whichever half remains.
        left -= half
    return


@as_written
def bin_scores(
    X, by_columns, inverse, centre, factor, w, edges, lifted, places, scores, cells
):  # fmt: skip
    """Fill scores and cells of the rows of X; return whether all scores are finite.

    X holds the rows one after the other, or column after column. A score is the sum of w times
    (x inverse - centre) factor. A cell is the number of edges that are not above the score; those
    of `lifted` rows are counted from ``len(edges) + 1``. `places` is room.
    """
    n, d, height = np.uintp(len(scores)), np.uintp(len(w)), np.uintp(HEIGHT)
    zero, more = np.uintp(0), np.uintp(len(edges)) + np.uintp(1)
    check = 0.0
    for begin in range(zero, n, height):
        m = min(height, n - begin)
        if by_columns:
            for i in range(m):
                scores[begin + i] = 0.0
            for k in range(d):
                at, unit, middle, scale, own = k * n + begin, inverse[k], centre[k], factor[k], w[k]
                for i in range(m):
                    value = (np.float64(X[at + i]) * unit - middle) * scale
                    scores[begin + i] += own * value
        else:
            for i in range(m):
                at, total = (begin + i) * d, 0.0
                for k in range(d):
                    value = (np.float64(X[at + k]) * inverse[k] - centre[k]) * factor[k]
                    total += w[k] * value
                scores[begin + i] = total
        _search(edges, scores, begin, m, places)
        for i in range(m):
            # x - x is 0 if x is finite and NaN otherwise; the sum stays NaN.
            check += scores[begin + i] - scores[begin + i]
            cells[begin + i] = places[i] + (more if lifted[begin + i] else zero)
    return check == 0.0


@as_written
def gather_cells(scores, cells, weight, facts):
    """Fill `facts`, of shape (n_cells, N_FACTS) and 0 before, with what each cell holds."""
    n = np.uintp(len(scores))
    for i in range(n):
        own, score = facts[cells[i]], scores[i]
        first = own[COUNT] == 0.0
        start = score if first else own[FIRST]
        own[FIRST] = start
        own[LOW] = score if first else min(own[LOW], score)
        own[HIGH] = score if first else max(own[HIGH], score)
        own[COUNT] += 1.0
        own[WEIGHT] += weight[i]
        # About the first score of a bin: sums of squares of large scores would cancel.
        own[EXCESS] += weight[i] * (score - start)
    for i in range(n):
        own = facts[cells[i]]
        rest = scores[i] - own[FIRST] - own[EXCESS] / own[WEIGHT]
        own[SQUARES] += weight[i] * rest * rest
