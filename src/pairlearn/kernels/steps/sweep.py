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
W, weighted_sum : real, shape (d, M)
    Modified in place.
base : float64, shape (M,)
    Modified in place: `paid` up to which the sum holds each model's iterate.
diverged : uint8, shape (M,)
    Modified in place: set for a model whose iterate is no longer finite, and which then stops.
"""

import math

import numpy as np

from pairlearn.kernels._native import call_scalar, kernel, part, prefetch

#: A model is multiplied out when its factor falls below this, before its coefficients overflow.
SMALLEST = 1e-100

#: Columns are taken in groups of this many.
LANES = np.uintp(4)


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
    shrink,
    scores,
    moves,
    owed,
    norms,
):
    """Take the active steps for all models; the last five arguments are scratch of length M.

    Models of one step size are equal until the iterate leaves the ball of the smallest radius. Till
    then they share a column: `heads` holds the model of the smallest radius in each of the first
    ``n_live[0]`` columns, `following` the next larger one of a model, -1 for none. The model that
    projects gets a column of its own. `multipliers`, `bounds` (the smallest radius), `base` and
    `diverged` are those of columns, `radii` those of models.

    `shrink` must be ones on entry. A projection is applied together with the next update, so it
    costs no separate pass, or before returning.
    """
    real = X.dtype.type
    d = np.uintp(W.shape[0])
    for m in range(np.uintp(W.shape[1])):
        moves[m] = real(0.0)
        owed[m] = real(0.0)
    for p in range(n_active):
        t = np.uintp(active[p])
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        a = i * d
        b = j * d
        live = np.uintp(n_live[0])
        # Whole vectors of columns; those beyond the last hold zeros.
        wide = min((live + LANES - np.uintp(1)) // LANES * LANES, np.uintp(W.shape[1]))
        for m in range(wide):
            scores[m] = real(0.0)
        for k in range(d):
            difference = X[a + k] - X[b + k]
            for m in range(wide):
                scores[m] += difference * W[k, m]
        n_moving = 0
        for m in range(live):
            slope = 0.0
            if not diverged[m]:
                slope = call_scalar(
                    slope_address, np.float64(shrink[m] * scores[m]), y[i], y[j], parameter
                )
            moves[m] = real(step_sizes[t] * multipliers[m] * slope)
            owed[m] = real(0.0)
            if slope != 0.0:
                n_moving += 1
                owed[m] = real(paid[t] - base[m])
                base[m] = paid[t]
        if n_moving == 0:
            continue
        for m in range(wide):
            norms[m] = real(0.0)
        for k in range(d):
            difference = X[a + k] - X[b + k]
            for m in range(wide):
                w = shrink[m] * W[k, m]
                weighted_sum[k, m] += owed[m] * w
                w -= moves[m] * difference
                W[k, m] = w
                norms[m] += w * w
        for m in range(live):
            shrink[m] = real(1.0)
            if not norms[m] < np.inf:
                diverged[m] = 1
                continue
            while norms[m] > bounds[m] * bounds[m]:
                radius, first = bounds[m], heads[m]
                at = m
                if following[first] >= 0:
                    at = np.uintp(n_live[0])
                    n_live[0] += 1
                    for k in range(d):
                        W[k, at] = W[k, m]
                        weighted_sum[k, at] = weighted_sum[k, m]
                        total[k, at] = total[k, m]
                        left_iterate[k, at] = left_iterate[k, m]
                    multipliers[at], base[at], bounds[at] = multipliers[m], base[m], radius
                    heads[at], heads[m] = first, following[first]
                    following[first] = -1
                    bounds[m] = radii[heads[m]]
                shrink[at] = real(radius / math.sqrt(norms[m]))
                if at == m:
                    break
    for k in range(d):
        for m in range(np.uintp(n_live[0])):
            W[k, m] *= shrink[m]
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
