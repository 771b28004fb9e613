# SPDX-License-Identifier: BSD-3-Clause
r"""What a stream with several memories needs at every block, each in one call.

Arrays
------
rings : float64, shape (2, K, W)
    The latest scores of positives and of negatives by each of K memories.
wins : float64, shape (2, K, W)
    For each of them, the number of scores of the other class on its right side: below a positive,
    above a negative; a tie counts half.
places : int64, shape (2, 2)
    For each class, where the next score goes, and how many there are.
sums : float64, shape (K, 2, m + 1, m + 1); means : float64, shape (2, m)
    Sums of z z' with z = (1, x - origin), of positives and negatives; room for their means.
counts : float64, shape (K, 2); kept : float64, shape (K,)
    Numbers of examples, and the share of the past that stays.
weights : float64, shape (K, m); middle, sizes, ridges : float64, shape (K,)
    The results, see `pairlearn.solvers.closed_form.memories.Directions`, and the ridges.
C : float64, shape (m, m)
    Room for the matrix of one memory.
low, high : float64, shape (m,)
    The least and the largest value of each feature so far.
"""

from __future__ import annotations

import numpy as np

from pairlearn.kernels._native import as_written, elementwise, kernel


@as_written
def note_scores(scores, y, rings, places):
    """Put scores into the rings, in order."""
    n_memories, length = rings.shape[1], rings.shape[2]
    for i in range(len(y)):
        own = 0 if y[i] > 0.0 else 1
        slot = places[own, 0]
        for k in range(n_memories):
            rings[own, k, slot] = scores[i, k]
        places[own, 0] = 0 if slot + 1 == length else slot + 1
        if places[own, 1] < length:
            places[own, 1] += 1


@kernel
def count_wins(rings, places, wins):
    """Compare all positives with all negatives; halves add up exactly in any order."""
    p, q = places[0, 1], places[1, 1]
    for k in range(rings.shape[1]):
        positives, negatives, behind = rings[0, k], rings[1, k], wins[1, k]
        for j in range(q):
            behind[j] = 0.0
        for i in range(p):
            score, total = positives[i], 0.0
            for j in range(q):
                won = (0.5 if score > negatives[j] else 0.0) + (
                    0.5 if score >= negatives[j] else 0.0
                )
                total += won
                behind[j] += won
            wins[0, k, i] = total


@kernel
def longest_as_good(wins, places, errors):
    """Return the first memory whose AUC is at most `errors` standard errors below the best."""
    n_memories = wins.shape[1]
    p, q = places[0, 1], places[1, 1]
    top, best = 0, -1.0
    for k in range(n_memories):
        total = 0.0
        for i in range(p):
            total += wins[0, k, i]
        if total > best:
            top, best = k, total
    for k in range(n_memories):
        mean, square, other = 0.0, 0.0, 0.0
        for i in range(p):
            apart = wins[0, top, i] - wins[0, k, i]
            mean += apart
            square += apart * apart
        for j in range(q):
            apart = wins[1, top, j] - wins[1, k, j]
            other += apart * apart
        gap = mean / (p * q)
        variance = (square / (p * q * q) - gap * gap) / p
        variance += (other / (p * p * q) - gap * gap) / q
        if gap <= errors * np.sqrt(max(variance, 0.0)):
            return k
    return top


@as_written
def doubled_wins(winners, losers):
    """Return twice the number of losers below each winner, plus those equal; both are sorted."""
    total = 0
    below = 0
    not_above = 0
    for i in range(len(winners)):
        value = winners[i]
        while below < len(losers) and losers[below] < value:
            below += 1
        not_above = max(not_above, below)
        while not_above < len(losers) and losers[not_above] <= value:
            not_above += 1
        total += below + not_above
    return total


@elementwise
def score_rows(Z, weights, middle, scores):
    """Write the scores of rows; `weights` has a column for each memory.

    The sum over features keeps its order, so that a row has the same score in any company.
    """
    n_memories = len(middle)
    for i in range(len(Z)):
        for k in range(n_memories):
            scores[i, k] = 0.0
        for j in range(Z.shape[1]):
            value = Z[i, j]
            for k in range(n_memories):
                scores[i, k] += value * weights[j, k]
        for k in range(n_memories):
            scores[i, k] -= middle[k]


@elementwise
def widen_ranges(Z, low, high):
    """Let the ranges of features hold these rows."""
    for i in range(len(Z)):
        for j in range(len(low)):
            value = Z[i, j]
            low[j] = value if value < low[j] else low[j]
            high[j] = value if value > high[j] else high[j]


@elementwise
def add_block(Z, y, weight, origin, kept, forgotten, sums, counts, row, found):
    """Let the past shrink, and add a block; a class with fewer than `forgotten` examples is gone.

    `row`, of shape (m + 1,), and `found`, of shape (2, m + 1, m + 1), are room.
    """
    size = len(row)
    n_positive = 0
    for c in range(2):
        for a in range(size):
            for b in range(a + 1):
                found[c, a, b] = 0.0
    row[0] = 1.0
    for i in range(len(y)):
        c = 1
        if y[i] > 0.0:
            c = 0
            n_positive += 1
        for j in range(size - 1):
            row[j + 1] = Z[i, j] - origin[j]
        for a in range(size):
            value = weight[i] * row[a]
            for b in range(a + 1):
                found[c, a, b] += value * row[b]
    for k in range(len(kept)):
        for c in range(2):
            share = kept[k]
            count = share * counts[k, c]
            if count < forgotten:
                share = count = 0.0
            counts[k, c] = count + (n_positive if c == 0 else len(y) - n_positive)
            for a in range(size):
                for b in range(a + 1):
                    value = share * sums[k, c, a, b] + found[c, a, b]
                    sums[k, c, a, b] = value
                    sums[k, c, b, a] = value


@elementwise
def find_directions(
    sums, counts, least, pooled, origin, scale, ridges, means, C, weights, middle, sizes
):
    """Solve (D C D + l I) v = D u for each memory by Cholesky's method; tell whether all could.

    The next longer memory that has `least` examples of both classes speaks for one that has not.
    The covariance of a class counts as often as its examples if they are `pooled`, else once.
    """
    m = np.uintp(len(scale))
    own = 0
    for k in range(len(ridges)):
        if min(counts[k, 0], counts[k, 1]) >= least:
            own = k
        for c in range(2):
            for i in range(m):
                means[c, i] = sums[own, c, 0, i + 1] / sums[own, c, 0, 0]
        p, q = sums[own, 0, 0, 0], sums[own, 1, 0, 0]
        f, g = 1.0, 1.0
        if pooled:
            f = 2.0 * counts[own, 0] / (counts[own, 0] + counts[own, 1])
            g = 2.0 - f
        # The lower half of the matrix, then its factor in the same place.
        for i in range(m):
            for j in range(i + 1):
                value = f * sums[own, 0, i + 1, j + 1] / p + g * sums[own, 1, i + 1, j + 1] / q
                value -= f * means[0, i] * means[0, j] + g * means[1, i] * means[1, j]
                C[i, j] = value * scale[i] * scale[j]
            C[i, i] += ridges[k]
        for i in range(m):
            for j in range(i):
                total = C[i, j]
                for r in range(j):
                    total -= C[i, r] * C[j, r]
                C[i, j] = total / C[j, j]
            total = C[i, i]
            for r in range(i):
                total -= C[i, r] * C[i, r]
            if not total > 0.0:
                return False
            C[i, i] = np.sqrt(total)
        for i in range(m):
            total = (means[0, i] - means[1, i]) * scale[i]
            for r in range(i):
                total -= C[i, r] * weights[k, r]
            weights[k, i] = total / C[i, i]
        square = 0.0
        for i in range(m):
            square += weights[k, i] * weights[k, i]
        for back in range(m):
            i = m - np.uintp(1) - back
            total = weights[k, i]
            for r in range(i + np.uintp(1), m):
                total -= C[r, i] * weights[k, r]
            weights[k, i] = total / C[i, i]
        size = np.sqrt(square)
        unit = 1.0 / size if size > 0.0 else 1.0
        sizes[k] = size
        middle[k] = 0.0
        for i in range(m):
            weights[k, i] *= scale[i] * unit
            middle[k] += weights[k, i] * (0.5 * (means[0, i] + means[1, i]) + origin[i])
    return True


@elementwise
def learn_rows(
    Z, y, weight, at, scores, place, last,
    block, block_y, block_weight, block_scores, columns, weights, middle, sizes,
    origin, kept, forgotten, sums, counts, row, found, low, high, rings, places, wins,
    fewest, errors, scale, ridge, noise, least, pooled, ridges, means, C,
    new_weights, new_middle, new_sizes,
    end, held, held_y, held_weight,
):  # fmt: skip
    """Learn rows from `at` on, block by block; return the row to go on from.

    A block that is full, and scored, is learned first. It stops at a full block that ends at
    example `last` or later, or after which directions cannot be found by the present scale: the
    caller learns this block. `place` holds the rows of the open block, the example that it starts
    at, the memory to take, and the number of rows that are kept: those of blocks that start before
    example `end`. `found` and arrays named new are room, as in the functions that this one
    calls.
    """
    side, n_memories = len(block_y), len(middle)
    while at < len(y) or place[0] == side:
        begin = place[0]
        stop = min(side, begin + len(y) - at)
        best = place[2]
        for i in range(begin, stop):
            for j in range(block.shape[1]):
                block[i, j] = Z[at, j]
            block_y[i] = y[at]
            block_weight[i] = weight[at]
            at += 1
        score_rows(block[begin:stop], columns, middle, block_scores[begin:stop])
        for i in range(begin, stop):
            scores[at - stop + i] = block_scores[i, best]
        place[0] = stop
        if stop < side:
            break
        if place[1] + side >= last:
            break
        wakes = False
        for i in range(side):
            for j in range(len(scale)):
                if scale[j] == 0.0 and (block[i, j] < low[j] or block[i, j] > high[j]):
                    wakes = True
        if wakes:
            break
        add_block(block, block_y, block_weight, origin, kept, forgotten, sums, counts, row, found)
        widen_ranges(block, low, high)
        if place[1] < end:
            for i in range(side):
                spot = place[3]
                for j in range(block.shape[1]):
                    held[spot, j] = block[i, j]
                held_y[spot], held_weight[spot] = block_y[i], block_weight[i]
                place[3] += 1
        note_scores(block_scores, block_y, rings, places)
        place[2] = 0
        if n_memories > 1 and min(places[0, 1], places[1, 1]) >= fewest:
            count_wins(rings, places, wins)
            place[2] = longest_as_good(wins, places, errors)
        place[0], place[1] = 0, place[1] + side
        ridges[0] = ridge
        for k in range(1, n_memories):
            own = noise * (1.0 / max(counts[k, 0], 1.0) + 1.0 / max(counts[k, 1], 1.0))
            ridges[k] = max(ridge, own)
        if find_directions(
            sums,
            counts,
            least,
            pooled,
            origin,
            scale,
            ridges,
            means,
            C,
            new_weights,
            new_middle,
            new_sizes,
        ):
            for k in range(n_memories):
                middle[k], sizes[k] = new_middle[k], new_sizes[k]
                for j in range(len(scale)):
                    weights[k, j] = columns[j, k] = new_weights[k, j]
    return at
