# SPDX-License-Identifier: BSD-3-Clause
r"""Many models on one sample path: a grid of step sizes and radii trained together.

Two kernels give the same results as separate runs. `descend_models` keeps the parameters as a
(d, M) array and runs the inner loop over models; it is for few features. For many features the
steps are taken in blocks of K pairs with differences D (K, d): the products P = D W and G = D D'
come from matrix multiplication, `descend_block` computes in K x M numbers how every model moves,

    w_t = shrinkage_t w_0 + sum_{g < t} gamma_{g,t} D_g,

and two more products update W and the weighted sums. The coefficients of the sums are computed
backward, as in the sparse kernel: all terms are positive, so nothing cancels.

Arrays
------
multipliers, radii : float64, shape (M,)
    Each model's factor on the step sizes, and its radius.
W, weighted_sum : real, shape (M, d), or in `descend_models` (d, M), flat
    Modified in place.
base : float64, shape (M,)
    Modified in place: `paid` up to which the sum holds each model's iterate.
diverged : uint8, shape (M,)
    Modified in place: set for a model whose iterate is no longer finite, and which then stops.
"""

import math

import numpy as np

from pairlearn.kernels._native import call_scalar, kernel, part, prefetch
from pairlearn.kernels.steps.dense import AHEAD, HINGE
from pairlearn.kernels.steps.vectors import (
    BYTES,
    filled,
    minus,
    over_root,
    plus,
    plus_multiple,
    plus_product,
    read,
    read_doubles,
    times,
    where_below,
    write,
)
from pairlearn.kernels.steps.vectors import total as sum_of

#: Doubles of a vector.
DOUBLES = np.uintp(8)
#: A model is multiplied out when its factor falls below this, before its coefficients overflow.
SMALLEST = 1e-100


@part
def _score_columns(difference, W, wide, lanes, scores):
    """Fill the scores of the first `wide` columns, a vector of columns at a time."""
    d, n = np.uintp(len(difference)), np.uintp(len(scores))
    two = np.uintp(2)
    for m in range(np.uintp(0), wide, lanes):
        even = odd = filled(scores.dtype.type(0.0))
        for k in range(np.uintp(0), d - d % two, two):
            even = plus_multiple(even, difference[k], read(W, k * n + m))
            odd = plus_multiple(odd, difference[k + np.uintp(1)], read(W, k * n + n + m))
        if d % two:
            even = plus_multiple(
                even, difference[d - np.uintp(1)], read(W, (d - np.uintp(1)) * n + m)
            )
        write(scores, m, plus(even, odd))


@part
def _move_columns(difference, W, weighted_sum, wide, lanes, shrink, moves, owed, norms):
    """Pay and move the first `wide` columns, and fill their squared norms."""
    d, n = np.uintp(len(difference)), np.uintp(len(norms))
    for m in range(np.uintp(0), wide, lanes):
        shorter, move, due = read(shrink, m), read(moves, m), read(owed, m)
        norm = filled(norms.dtype.type(0.0))
        for k in range(d):
            at = k * n + m
            w = times(shorter, read(W, at))
            write(weighted_sum, at, plus_product(read(weighted_sum, at), due, w))
            w = plus_multiple(w, -difference[k], move)
            write(W, at, w)
            norm = plus_product(norm, w, w)
        write(norms, m, norm)


@part
def _hinge_moves(sign, margin, step, now, multipliers, wide, shrink, scores, moves, owed, base):
    """Fill moves and what is owed to the models whose hinge is active; return if there is one."""
    nothing, some = filled(0.0), filled(0.0)
    for m in range(np.uintp(0), wide, DOUBLES):
        score = times(read_doubles(shrink, m), read_doubles(scores, m))
        score, limit = times(filled(sign), score), filled(margin)
        move = times(filled(-sign * step), read(multipliers, m))
        before = read(base, m)
        write(moves, m, where_below(score, limit, move, nothing))
        write(owed, m, where_below(score, limit, minus(filled(now), before), nothing))
        write(base, m, where_below(score, limit, filled(now), before))
        some = where_below(score, limit, filled(1.0), some)
    return sum_of(some) > 0.0


@part
def _project_alone(wide, norms, bounds, limits, shrink):
    """Fill `shrink` for models that have a column of their own; return if others need a look."""
    some = filled(0.0)
    for m in range(np.uintp(0), wide, DOUBLES):
        norm, bound = read_doubles(norms, m), read(bounds, m)
        ratio = where_below(times(bound, bound), norm, over_root(bound, norm), filled(1.0))
        write(shrink, m, ratio)
        some = where_below(norm, read(limits, m), some, filled(1.0))
    return sum_of(some) > 0.0


@kernel
def descend_models(
    X,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    heads,
    following,
    radii,
    n_live,
    multipliers,
    bounds,
    base,
    diverged,
    W,
    weighted_sum,
    total,
    left_iterate,
    slope_address,
    parameter,
    limits,
    difference,
    shrink,
    scores,
    moves,
    owed,
    norms,
):
    """Take the active steps for all models; the last seven arguments are scratch.

    `W` and the sums hold a column for each model, one row after the other, and further columns of
    zeros up to a whole number of vectors; arrays of columns and scratch have the same length, but
    for `difference`, of length d.

    Models of one step size are equal until the iterate leaves the ball of the smallest radius. Till
    then they share a column: `heads` holds the model of the smallest radius in each of the first
    ``n_live[0]`` columns, `following` the next larger one of a model, -1 for none. The model that
    projects gets a column of its own. `multipliers`, `bounds` (the smallest radius), `base` and
    `diverged` are those of columns, `radii` those of models.

    `shrink` must be ones on entry. A projection is applied together with the next update, so it
    costs no separate pass, or before returning. `limits` holds the squared norms from which on a
    column needs a look: those of shared columns that reach a ball. The address HINGE stands for the
    hinge.
    """
    real = X.dtype.type
    d, n = np.uintp(len(difference)), np.uintp(len(scores))
    lanes = line = np.uintp(BYTES // X.itemsize)
    for m in range(n):
        moves[m] = real(0.0)
        owed[m] = real(0.0)
        is_shared = m < np.uintp(n_live[0]) and following[heads[m]] >= 0
        limits[m] = bounds[m] * bounds[m] if is_shared else np.inf
    for p in range(n_active):
        t = np.uintp(active[p])
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        a = i * d
        b = j * d
        live = np.uintp(n_live[0])
        # Whole vectors of columns; those beyond the last hold zeros.
        wide = (live + lanes - np.uintp(1)) // lanes * lanes
        if p + AHEAD < n_active:
            soon = np.uintp(active[p + AHEAD])
            a_soon, b_soon = np.uintp(left[soon]) * d, np.uintp(right[soon]) * d
            for k in range(np.uintp(0), d, line):
                prefetch(X, a_soon + k)
                prefetch(X, b_soon + k)
            # A row that starts inside a line of the cache may end in the next.
            prefetch(X, a_soon + d - np.uintp(1))
            prefetch(X, b_soon + d - np.uintp(1))
        for k in range(d):
            difference[k] = X[a + k] - X[b + k]
        _score_columns(difference, W, wide, lanes, scores)
        is_moving = False
        if slope_address == HINGE:
            sign = 1.0 if y[i] > y[j] else -1.0
            is_moving = _hinge_moves(
                sign, parameter, step_sizes[t], paid[t], multipliers, wide, shrink, scores, moves,
                owed, base,
            )  # fmt: skip
        else:
            for m in range(live):
                slope = 0.0
                if not diverged[m]:
                    slope = call_scalar(
                        slope_address, np.float64(shrink[m] * scores[m]), y[i], y[j], parameter
                    )
                moves[m] = real(step_sizes[t] * multipliers[m] * slope)
                owed[m] = real(0.0)
                if slope != 0.0:
                    is_moving = True
                    owed[m] = real(paid[t] - base[m])
                    base[m] = paid[t]
        if not is_moving:
            continue
        _move_columns(difference, W, weighted_sum, wide, lanes, shrink, moves, owed, norms)
        if not _project_alone(wide, norms, bounds, limits, shrink):
            continue
        for m in range(live):
            shrink[m] = real(1.0)
            if not norms[m] < np.inf:
                diverged[m] = 1
                multipliers[m] = 0.0
                continue
            while norms[m] > bounds[m] * bounds[m]:
                radius, first = bounds[m], heads[m]
                at = m
                if following[first] >= 0:
                    at = np.uintp(n_live[0])
                    n_live[0] += 1
                    for k in range(np.uintp(0), d * n, n):
                        W[k + at] = W[k + m]
                        weighted_sum[k + at] = weighted_sum[k + m]
                        total[k + at] = total[k + m]
                        left_iterate[k + at] = left_iterate[k + m]
                    multipliers[at], base[at], bounds[at] = multipliers[m], base[m], radius
                    heads[at], heads[m] = first, following[first]
                    following[first] = -1
                    bounds[m] = radii[heads[m]]
                    limits[at] = np.inf
                    limits[m] = bounds[m] * bounds[m] if following[heads[m]] >= 0 else np.inf
                shrink[at] = real(radius / math.sqrt(norms[m]))
                if at == m:
                    break
    for k in range(np.uintp(0), d * n, n):
        for m in range(np.uintp(n_live[0])):
            W[k + m] *= shrink[m]
    for m in range(np.uintp(n_live[0])):
        shrink[m] = real(1.0)


@kernel
def fill_differences(X, left, right, differences):
    """Fill the rows of `differences` with those of the pairs; X holds rows one after the other."""
    n, d = differences.shape
    line = np.uintp(64 // X.itemsize)
    for p in range(n):
        a = np.uintp(left[p]) * np.uintp(d)
        b = np.uintp(right[p]) * np.uintp(d)
        if p + 1 < n:
            next_a = np.uintp(left[p + 1]) * np.uintp(d)
            next_b = np.uintp(right[p + 1]) * np.uintp(d)
            for k in range(np.uintp(0), np.uintp(d), line):
                prefetch(X, next_a + k)
                prefetch(X, next_b + k)
        for k in range(np.uintp(d)):
            differences[p, k] = X[a + k] - X[b + k]


@part
def _fill_scores(t, products, gram, ends, factors, whole, scores):
    """Fill the scores of the models at step t of the block, from their earlier moves."""
    n_models = np.uintp(len(scores))
    for m in range(n_models):
        scores[m] = factors[m] * products[t, m]
    four = t // 4 * 4
    for g in range(0, four, 4):
        c0 = np.float64(gram[t, g])
        c1 = np.float64(gram[t, g + 1])
        c2 = np.float64(gram[t, g + 2])
        c3 = np.float64(gram[t, g + 3])
        for m in range(n_models):
            scores[m] += (ends[g, m] * c0 + ends[g + 1, m] * c1) + (
                ends[g + 2, m] * c2 + ends[g + 3, m] * c3
            )
    for g in range(four, t):
        c0 = np.float64(gram[t, g])
        for m in range(n_models):
            scores[m] += ends[g, m] * c0
    for m in range(n_models):
        scores[m] *= whole[m]


@kernel
def descend_block(
    products,
    gram,
    y_left,
    y_right,
    steps,
    paid,
    multipliers,
    radii,
    norms,
    base,
    diverged,
    slope_address,
    parameter,
    W,
    weighted_sum,
    ends,
    room,
):
    """Take K steps for each model in terms of the differences of the block.

    products (K, M) holds P, gram (K, K) holds G, norms (M,) the squared norms at the start. On
    return W and the weighted sum, of shape (M, d), are multiplied and added to as far as the
    models at the start tell. The columns of ``D' ends``, with ends of shape (K, 2 M), are still to
    be added to them. room, float64, shape (3 K + 3, M), is scratch.

    A model is whole (factor W_0 + sum_g ends_g D_g), so that a projection changes one number.
    """
    n_pairs, n_models = products.shape
    moves, ratios, owed = room[:n_pairs], room[n_pairs : 2 * n_pairs], room[2 * n_pairs : -3]
    scores, whole, factors = room[-3], room[-2], room[-1]
    for m in range(n_models):
        whole[m] = 1.0
        factors[m] = 1.0
    for t in range(n_pairs):
        _fill_scores(t, products, gram, ends, factors, whole, scores)
        square = np.float64(gram[t, t])
        for m in range(n_models):
            score = scores[m]
            move = 0.0
            ratio = 1.0
            due = 0.0
            slope = 0.0
            ends[t, m] = 0.0
            if not diverged[m]:
                slope = call_scalar(slope_address, score, y_left[t], y_right[t], parameter)
            if slope != 0.0:
                move = steps[t] * multipliers[m] * slope
                norm_squared = norms[m] + move * (move * square - 2.0 * score)
                norms[m] = norm_squared
                due = paid[t] - base[m]
                base[m] = paid[t]
                if not norm_squared < np.inf:
                    diverged[m] = 1
                    move = 0.0
                    due = 0.0
                elif norm_squared > radii[m] * radii[m]:
                    ratio = radii[m] / math.sqrt(norm_squared)
                    norms[m] = radii[m] * radii[m]
                ends[t, m] = -move / whole[m]
                whole[m] *= ratio
                if whole[m] < SMALLEST:
                    for g in range(t + 1):
                        ends[g, m] *= whole[m]
                    factors[m] *= whole[m]
                    whole[m] = 1.0
            moves[t, m] = move
            ratios[t, m] = ratio
            owed[t, m] = due
    suffix, next_owed = scores, norms
    for m in range(n_models):
        suffix[m] = 0.0
        next_owed[m] = 0.0
    for t in range(n_pairs - 1, -1, -1):
        for m in range(n_models):
            suffix[m] = ratios[t, m] * (next_owed[m] + suffix[m])
            next_owed[m] = owed[t, m]
            ends[t, n_models + m] = -moves[t, m] * suffix[m]
            ends[t, m] *= whole[m]
    real = W.dtype.type
    for m in range(n_models):
        shrink = real(whole[m] * factors[m])
        share = real(next_owed[m] + suffix[m])
        for k in range(np.uintp(W.shape[1])):
            weighted_sum[m, k] += share * W[m, k]
            W[m, k] *= shrink
