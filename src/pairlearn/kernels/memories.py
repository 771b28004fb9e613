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
sums : float64, shape (K, 2, m + 1, m + 1); means : float64, shape (K, 2, m)
    Sums of z z' with z = (1, x - origin), of positives and negatives; room for their means.
counts : float64, shape (K, 2); kept : float64, shape (K,)
    Numbers of examples, and the share of the past that stays.
weights : float64, shape (K, m); middle, sizes, ridges : float64, shape (K,)
    The results, see `pairlearn.solvers.closed_form.memories.Directions`, and the ridges.
U : float64, shape (K, m, padded(m))
    Room for the matrix of each memory, and its factor.
low, high : float64, shape (m,)
    The least and the largest value of each feature so far.
"""

from __future__ import annotations

import numpy as np

from pairlearn.kernels._native import (
    as_written,
    elementwise,
    elementwise_part,
    kernel,
    part,
    part_as_written,
)
from pairlearn.kernels.tiles import LANES, add_products, clear, padded, tile_of

_add_scores = tile_of(4, 1)
_take_wide, _take_narrow = tile_of(1, 2, -1), tile_of(1, 1, -1)
#: Scores that a turn of the loop over them may take at once.
_TURN = 32


def room_for_block(n_rows, n_features, *, weighs=True):
    """Return room to add a block: its rows by class, without and with weights, and their sums."""
    size = n_features + 1
    width = padded(size)
    rows = np.empty((1 + weighs, n_rows, width))
    rows[:, :, size:] = 0.0  # What is beyond the features stays 0.
    return rows, np.empty((width, width)), np.empty((2, size, size))


def room_for_directions(n_ridges, n_features):
    """Return room to find directions: for each ridge the means, and a matrix."""
    width = padded(n_features)
    return np.empty((n_ridges, 2, n_features)), np.empty((n_ridges, n_features, width))


def room_for_wins(n_scores):
    """Return room to compare scores: those of both classes, and wins, for whole turns of loops."""
    length = -(-n_scores // _TURN) * _TURN
    return np.empty((2, length), dtype=np.float32), np.empty(length, dtype=np.float32)


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
def count_wins(rings, places, wins, singles, behind):
    """Compare all positives with all negatives; halves add up exactly in any order.

    `singles` and `behind` are room, see `room_for_wins`.
    """
    p, q = places[0, 1], places[1, 1]
    for k in range(rings.shape[1]):
        own = rings[0, k], rings[1, k], p, q, wins[0, k], wins[1, k]
        if not _count_strictly(*own, singles, behind):
            _count_with_ties(*own)


@part
def _count_strictly(positives, negatives, p, q, ahead, below, singles, behind):
    """Compare scores in single precision; return False where two are equal, or too large for it.

    Rounding keeps their order, so that it takes half as long and is as exact. Positives go four at
    a time, since `behind` is then read and written a quarter as often.
    """
    length = singles.shape[1]
    for j in range(length):
        # What is beyond the scores wins against nothing and loses to nothing.
        singles[0, j] = positives[j] if j < p else -np.inf
        singles[1, j] = negatives[j] if j < q else np.inf
        behind[j] = 0.0
    zero, one = np.float32(0.0), np.float32(1.0)
    tied = False
    for i in range(0, p, 4):
        a, b, c, d = singles[0, i], singles[0, i + 1], singles[0, i + 2], singles[0, i + 3]
        first = second = third = fourth = zero
        for j in range(length):
            score = singles[1, j]
            won_a, won_b = one if a > score else zero, one if b > score else zero
            won_c, won_d = one if c > score else zero, one if d > score else zero
            first += won_a
            second += won_b
            third += won_c
            fourth += won_d
            behind[j] += (won_a + won_b) + (won_c + won_d)
            tied |= (a == score) | (b == score) | (c == score) | (d == score)
        for k, total in enumerate((first, second, third, fourth)):
            if i + k < p:
                ahead[i + k] = total
    for j in range(q):
        below[j] = behind[j]
    return not tied


@part
def _count_with_ties(positives, negatives, p, q, ahead, below):
    for j in range(q):
        below[j] = 0.0
    for i in range(p):
        score, total = positives[i], 0.0
        for j in range(q):
            won = (0.5 if score > negatives[j] else 0.0) + (0.5 if score >= negatives[j] else 0.0)
            total += won
            below[j] += won
        ahead[i] = total


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


@elementwise
def score_rows(Z, weights, middle, scores):
    """Write the scores of rows; `weights` has a column for each memory.

    The sum over features keeps its order, so that a row has the same score in any company.
    """
    n_memories, m = len(middle), Z.shape[1]
    for i in range(len(Z)):
        for k in range(n_memories):
            scores[i, k] = 0.0
    whole = len(Z) // 4 * 4 if n_memories == LANES else 0
    for i in range(0, whole, 4):
        _add_scores(
            Z.ctypes.data + 8 * m * i, 8 * m, 8, weights.ctypes.data, 8 * LANES, m,
            scores.ctypes.data + 8 * LANES * i, 8 * LANES,
        )  # fmt: skip
    for i in range(whole, len(Z)):
        for j in range(m):
            value = Z[i, j]
            for k in range(n_memories):
                scores[i, k] += value * weights[j, k]
    for i in range(len(Z)):
        for k in range(n_memories):
            scores[i, k] -= middle[k]


@as_written
def add_class_sums(scores, offset, y, sums):
    """Add number, sum and sum of squares of centred scores of each class, negative first."""
    for i in range(len(y)):
        score, own = scores[i] - offset, sums[1 if y[i] > 0.0 else 0]
        own[0] += 1.0
        own[1] += score
        own[2] += score * score


@as_written
def reach_beyond(Z, most):
    """Tell whether a value is larger than this."""
    beyond = False
    for i in range(len(Z)):
        for j in range(Z.shape[1]):
            beyond |= abs(Z[i, j]) > most
    return beyond


@elementwise
def widen_ranges(Z, low, high):
    """Let the ranges of features hold these rows."""
    for i in range(len(Z)):
        for j in range(len(low)):
            value = Z[i, j]
            low[j] = value if value < low[j] else low[j]
            high[j] = value if value > high[j] else high[j]


@elementwise_part
def _products_of_classes(sorted_rows, weighs, n_positive, n, tile, found):
    """Fill `found` with the sums of products of positives, which come first, and of negatives."""
    size = np.uintp(found.shape[1])
    for c in range(2):
        begin, stop = n_positive * c, n if c else n_positive
        clear(tile)
        add_products(sorted_rows[0, begin:stop], sorted_rows[int(weighs), begin:stop], tile)
        for a in range(size):
            for b in range(a, size):
                found[c, a, b] = found[c, b, a] = tile[a, b]


@elementwise
def add_block(Z, y, weight, origin, kept, forgotten, sums, counts, sorted_rows, tile, found):
    """Let the past shrink, and add a block; a class with fewer than `forgotten` examples is gone.

    The last three arrays are room, see `room_for_block`.
    """
    size, n, one = len(origin) + 1, len(y), np.uintp(1)
    n_positive = 0
    weighs = False
    for i in range(n):
        n_positive += np.int64(y[i] > 0.0)
        weighs |= weight[i] != 1.0
    # The rows of a class come together. No branch chooses the place: it could not be foreseen.
    places = np.int64(0), n_positive
    positives, negatives = places
    for i in range(n):
        is_positive = np.int64(y[i] > 0.0)
        spot = is_positive * positives + (1 - is_positive) * negatives
        positives += is_positive
        negatives += 1 - is_positive
        row, own = Z[i], sorted_rows[0, spot]
        own[0] = 1.0
        for j in range(np.uintp(size - 1)):
            own[j + one] = row[j] - origin[j]
        if weighs:
            heavy = sorted_rows[1, spot]
            for j in range(size):
                heavy[j] = weight[i] * own[j]
    _products_of_classes(sorted_rows, weighs, n_positive, n, tile, found)
    for k in range(len(kept)):
        for c in range(2):
            share = kept[k]
            count = share * counts[k, c]
            if count < forgotten:
                share = count = 0.0
            counts[k, c] = count + (n_positive if c == 0 else n - n_positive)
            past, new = sums[k, c].reshape(-1), found[c].reshape(-1)
            for place in range(size * size):
                past[place] = share * past[place] + new[place]


@elementwise
def find_directions(
    sums, counts, least, pooled, origin, scale, ridges, means, U, weights, middle, sizes
):
    """Solve (D C D + l I) v = D u for each memory by Cholesky's method; tell whether all could.

    A single memory may have several ridges. The next longer memory that has `least` examples of
    both classes speaks for one that has not. The covariance of a class counts as often as its
    examples if they are `pooled`, else once. The factor U has C = U' U, and is found row by row.
    Memories take each step in turn: a step waits for the one before it, but not for the others.
    """
    m, width, one = np.uintp(len(scale)), np.uintp(U.shape[2]), np.uintp(1)
    own = 0
    for k in range(len(ridges)):
        if k < len(counts) and min(counts[k, 0], counts[k, 1]) >= least:
            own = k
        for c in range(2):
            for i in range(m):
                means[k, c, i] = sums[own, c, 0, i + 1] / sums[own, c, 0, 0]
        p, q = sums[own, 0, 0, 0], sums[own, 1, 0, 0]
        f, g = 1.0, 1.0
        if pooled:
            f = 2.0 * counts[own, 0] / (counts[own, 0] + counts[own, 1])
            g = 2.0 - f
        # The upper half of the matrix, then its factor in the same place.
        for j in range(m):
            ahead, behind, row = sums[own, 0, j + one], sums[own, 1, j + one], U[k, j]
            first, second, factor = means[k, 0, j], means[k, 1, j], scale[j]
            for i in range(j):
                row[i] = 0.0
            for i in range(j, m):
                value = f * ahead[i + one] / p + g * behind[i + one] / q
                value -= f * means[k, 0, i] * first + g * means[k, 1, i] * second
                row[i] = value * scale[i] * factor
            for i in range(m, width):
                row[i] = 0.0
            row[j] += ridges[k]
            weights[k, j] = (first - second) * factor
        sizes[k] = 0.0
    for j in range(m):
        for k in range(len(ridges)):
            if not _factorise_row(U[k], j):
                return False
    for r in range(m):
        for k in range(len(ridges)):
            row, own_weights = U[k, r], weights[k]
            own_weights[r] /= row[r]
            value = own_weights[r]
            sizes[k] += value * value
            for i in range(r + one, m):
                own_weights[i] -= row[i] * value
    for back in range(m):
        i = m - one - back
        for k in range(len(ridges)):
            row, total = U[k, i], weights[k, i]
            for r in range(i + one, m):
                total -= row[r] * weights[k, r]
            weights[k, i] = total / row[i]
    for k in range(len(ridges)):
        size = np.sqrt(sizes[k])
        unit = 1.0 / size if size > 0.0 else 1.0
        sizes[k] = size
        middle[k] = 0.0
        for i in range(m):
            weights[k, i] *= scale[i] * unit
            middle[k] += weights[k, i] * (0.5 * (means[k, 0, i] + means[k, 1, i]) + origin[i])
    return True


@elementwise_part
def _factorise_row(U, j):
    """Replace row j of the upper half of a matrix by that of its Cholesky factor, unless it cannot.

    The rows above have been replaced. A row of U begins at a whole register, below the diagonal:
    what it has there is never used.
    """
    n, width, base = np.int64(j), U.shape[1], U.ctypes.data
    first, step = n // LANES * LANES, 8 * width
    column, row = base + 8 * n, base + step * n
    for i in range(first, width - 2 * LANES + 1, 2 * LANES):
        _take_wide(column, 0, step, base + 8 * i, step, n, row + 8 * i, 0)
    if (width - first) % (2 * LANES):
        i = width - LANES
        _take_narrow(column, 0, step, base + 8 * i, step, n, row + 8 * i, 0)
    if not U[j, j] > 0.0:
        return False
    root = np.sqrt(U[j, j])
    U[j, j] = root
    for i in range(j + np.uintp(1), np.uintp(len(U))):
        U[j, i] /= root
    return True


@part_as_written
def _total(values, n):
    """Return the sum of some of at most 128 numbers, in the order that NumPy has."""
    if n < 8:
        total = 0.0
        for i in range(n):
            total += values[i]
        return total
    a, b, c, d = values[0], values[1], values[2], values[3]
    e, f, g, h = values[4], values[5], values[6], values[7]
    whole = n // 8 * 8
    for i in range(8, whole, 8):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
        e += values[i + 4]
        f += values[i + 5]
        g += values[i + 6]
        h += values[i + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(whole, n):
        total += values[i]
    return total


@as_written
def find_scale(sums, origin, low, high, floor, least_spread, squares, scale):
    """Find the factors that give features the mean variance 1, with the bits of `scale_for`.

    `sums` are those of one memory. `floor` is the least scale as a share of a feature's range,
    `least_spread` the least spread of one that varies. `squares` is room for a number a feature.
    """
    p, q = sums[0, 0, 0], sums[1, 0, 0]
    share, other = p / (p + q), q / (p + q)
    n = 0
    for i in range(len(scale)):
        first = second = spread = spread_of_other = 0.0
        if p > 0.0:
            mean = sums[0, 0, i + 1] / p
            first, spread = origin[i] + mean, sums[0, i + 1, i + 1] / p - mean * mean
        if q > 0.0:
            mean = sums[1, 0, i + 1] / q
            second, spread_of_other = origin[i] + mean, sums[1, i + 1, i + 1] / q - mean * mean
        gap = first - second
        variance = share * spread + other * spread_of_other + share * other * (gap * gap)
        deviation = np.sqrt(max(variance, 0.0))
        scale[i] = 0.0
        if deviation > least_spread * max(abs(low[i]), abs(high[i])):
            scale[i] = max(deviation, floor * (high[i] - low[i]))
            ratio = deviation / scale[i]
            squares[n] = ratio * ratio
            n += 1
    if n:
        typical = np.sqrt(_total(squares, n) / n)
        for i in range(len(scale)):
            if scale[i] > 0.0:
                scale[i] = 1.0 / (scale[i] * typical)


@elementwise_part
def _deal(y, sign, n_folds, step, k, places):
    """Write the places of the rows of a class in a fold; return how many they are."""
    n = place = first = 0
    for i in range(len(y)):
        # No branch depends on a label: it could not be foreseen.
        own, fold = np.int64(sign * y[i] > 0.0), first + place
        places[n] = i
        n += own * (np.int64(fold == k) | np.int64(fold == k + n_folds))
        place += own
        turn = np.int64(place == n_folds)
        place -= turn * n_folds
        first += turn * step
        first -= n_folds * np.int64(first >= n_folds)
    return n


@elementwise
def take_fold(Z, y, weight, n_folds, repeat, k, origin, places, sorted_rows, tile, found):
    """Gather a fold of rows of one weight, and the sums of its products, as `add_block` has them.

    Rows of a class are dealt to the folds in turn, and a turn of the deal begins one fold farther
    in each repeat. Return how many positives, and rows, the fold has. `places` is room, of shape
    (2, len(y)).
    """
    p = _deal(y, 1.0, n_folds, repeat % n_folds, k, places[0])
    n = p + _deal(y, -1.0, n_folds, repeat % n_folds, k, places[1])
    for spot in range(n):
        row, own = Z[places[0, spot] if spot < p else places[1, spot - p]], sorted_rows[0, spot]
        own[0] = 1.0
        for j in range(len(origin)):
            own[j + 1] = row[j] - origin[j]
        if weight != 1.0:
            for j in range(len(origin) + 1):
                sorted_rows[1, spot, j] = weight * own[j]
    _products_of_classes(sorted_rows, weight != 1.0, p, n, tile, found)
    return p, n


@elementwise
def find_for_ridges(
    sums, counts, least, pooled, origin, scale, ridges, means, U, weights, middle, sizes
):
    """Solve as `find_directions` for several ridges of one memory; NaN for one too small."""
    given = sums, counts, least, pooled, origin, scale
    if find_directions(*given, ridges, means, U, weights, middle, sizes):
        return
    for k in range(len(ridges)):
        now = slice(k, k + 1)
        if not find_directions(
            *given, ridges[now], means[now], U[now], weights[now], middle[now], sizes[now]
        ):
            weights[k] = np.nan


@elementwise_part
def _wakes(Z, scale, low, high):
    """Tell whether a feature that was constant until now, and has no scale, changes in a row."""
    for i in range(len(Z)):
        for j in range(len(scale)):
            if scale[j] == 0.0 and (Z[i, j] < low[j] or Z[i, j] > high[j]):
                return True
    return False


@elementwise
def learn_rows(
    Z, y, weight, at, scores, place, last,
    block, block_y, block_weight, block_scores, columns, weights, middle, sizes,
    origin, kept, forgotten, sums, counts, sorted_rows, tile, found, low, high,
    rings, places, wins, singles, behind, fewest, errors, scale, ridge, noise, least, pooled,
    ridges, means, U,
    new_weights, new_middle, new_sizes,
    end, held, held_y, held_weight,
):  # fmt: skip
    """Learn rows from `at` on, block by block; return the row to go on from.

    A block that is full, and scored, is learned first. It stops after a block that ends at example
    `last` or later, or in which a feature without a scale changes: the caller finds scale and
    directions anew, and `place[4]` is 1. `place` also holds the rows of the open block, the example
    that it starts at, the memory to take, and the number of rows that are kept: those of blocks
    that start before example `end`. Arrays named new are room, and so are those of the functions
    that this one calls.
    """
    side, n_memories = len(block_y), len(middle)
    has_constant = False
    for j in range(len(scale)):
        has_constant |= scale[j] == 0.0
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
        if place[1] + side >= last or (has_constant and _wakes(block, scale, low, high)):
            place[4] = 1
        add_block(
            block, block_y, block_weight, origin, kept, forgotten, sums, counts,
            sorted_rows, tile, found,
        )  # fmt: skip
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
            count_wins(rings, places, wins, singles, behind)
            place[2] = longest_as_good(wins, places, errors)
        place[0], place[1] = 0, place[1] + side
        if place[4]:
            break
        ridges[0] = ridge
        for k in range(1, n_memories):
            own = noise * (1.0 / max(counts[k, 0], 1.0) + 1.0 / max(counts[k, 1], 1.0))
            ridges[k] = max(ridge, own)
        if find_directions(
            sums, counts, least, pooled, origin, scale, ridges, means, U,
            new_weights, new_middle, new_sizes,
        ):  # fmt: skip
            for k in range(n_memories):
                middle[k], sizes[k] = new_middle[k], new_sizes[k]
                for j in range(len(scale)):
                    weights[k, j] = columns[j, k] = new_weights[k, j]
    return at
