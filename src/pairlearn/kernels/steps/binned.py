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
COUNT, WEIGHT, FIRST, EXCESS, SQUARES, LOW, HIGH, GATHERED = range(8)


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
def gather_cells(scores, cells, weight, gathered):
    """Fill `gathered`, of shape (n_cells, GATHERED), with what each cell holds.

    One weight is that of all examples.
    """
    n, step = np.uintp(len(scores)), np.uintp(len(weight) > 1)
    for c in range(np.uintp(len(gathered))):
        for k in range(np.uintp(GATHERED)):
            gathered[c, k] = 0.0
    for i in range(n):
        own, score, heavy = gathered[cells[i]], scores[i], weight[i * step]
        first = own[COUNT] == 0.0
        start = score if first else own[FIRST]
        own[FIRST] = start
        own[LOW] = score if first else min(own[LOW], score)
        own[HIGH] = score if first else max(own[HIGH], score)
        own[COUNT] += 1.0
        own[WEIGHT] += heavy
        # About the first score of a bin: sums of squares of large scores would cancel.
        own[EXCESS] += heavy * (score - start)
    for i in range(n):
        own = gathered[cells[i]]
        rest = scores[i] - own[FIRST] - own[EXCESS] / own[WEIGHT]
        own[SQUARES] += weight[i * step] * rest * rest


@as_written
def hold_cells(gathered, cells, facts, sizes):
    """Fill a table as `merge_cells` has it with the cells that are not empty.

    `sizes` gets the number of examples of both halves of the cells.
    """
    m, half = np.uintp(0), np.uintp(len(gathered)) // np.uintp(2)
    for c in range(np.uintp(len(gathered))):
        own = gathered[c]
        if own[COUNT] > 0.0:
            cells[m] = c
            held = facts[m]
            held[0], held[1] = own[WEIGHT], own[FIRST] + own[EXCESS] / own[WEIGHT]
            held[2], held[3], held[4] = own[SQUARES], own[LOW], own[HIGH]
            sizes[np.uintp(c >= half)] += np.int64(own[COUNT])
            m += np.uintp(1)


@as_written
def merge_cells(a_cells, a, b_cells, b, cells, facts):
    """Fill `cells` and `facts` with what two tables hold together; return the number of cells.

    A table has its cells in increasing order, and a row for each: its weight, the mean of its
    scores, the sum of squares about it, the extremes, and sums.
    """
    zero, one, first_sum = np.uintp(0), np.uintp(1), np.uintp(5)
    n_a, n_b, width = np.uintp(len(a_cells)), np.uintp(len(b_cells)), np.uintp(a.shape[1])
    i, j, m = zero, zero, zero
    while i < n_a or j < n_b:
        only_a = j == n_b or (i < n_a and a_cells[i] < b_cells[j])
        only_b = i == n_a or (j < n_b and b_cells[j] < a_cells[i])
        own = facts[m]
        if only_a or only_b:
            one_of = a[i] if only_a else b[j]
            for k in range(width):
                own[k] = one_of[k]
            cells[m] = a_cells[i] if only_a else b_cells[j]
        else:
            left, right = a[i], b[j]
            total, gap = left[0] + right[0], right[1] - left[1]
            own[0] = total
            own[1] = left[1] + right[0] / total * gap
            own[2] = left[2] + right[2] + left[0] * right[0] / total * (gap * gap)
            own[3] = min(left[3], right[3])
            own[4] = max(left[4], right[4])
            for k in range(first_sum, width):
                own[k] = left[k] + right[k]
            cells[m] = a_cells[i]
        i += zero if only_b else one
        j += zero if only_a else one
        m += one
    return m
