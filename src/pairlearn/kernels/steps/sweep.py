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

from pairlearn.kernels._native import call_scalar, kernel

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
    ends,
    sums,
    shrinkage,
    moves,
    ratios,
    owed,
):
    """Take K steps for each model in terms of the differences of the block.

    products (M, K) holds P', gram (K, K) holds G, norms (M,) the squared norms at the start. On
    return ``W_end = shrinkage[:, 0] W + D' ends'`` and the weighted sum gains
    ``shrinkage[:, 1] W + D' sums'`` with ends, sums of shape (M, K). moves, ratios, owed (K,)
    are scratch.
    """
    n_models, n_pairs = products.shape
    for m in range(n_models):
        radius = radii[m]
        norm_squared = np.float64(norms[m])
        whole = 1.0
        n_done = n_pairs
        if diverged[m]:
            n_done = 0
        for t in range(n_done):
            score = whole * np.float64(products[m, t])
            for g in range(t):
                score += ends[m, g] * np.float64(gram[t, g])
            slope = call_scalar(slope_address, score, y_left[t], y_right[t], parameter)
            move = steps[t] * multipliers[m] * slope
            moves[t] = move
            ratios[t] = 1.0
            owed[t] = 0.0
            ends[m, t] = -move
            if slope != 0.0:
                owed[t] = paid[t] - base[m]
                base[m] = paid[t]
                norm_squared += move * (move * np.float64(gram[t, t]) - 2.0 * score)
                if not norm_squared < np.inf:
                    diverged[m] = 1
                    n_done = t
                    break
                norm = math.sqrt(max(norm_squared, 0.0))
                if norm > radius:
                    ratio = radius / norm
                    ratios[t] = ratio
                    whole *= ratio
                    for g in range(t + 1):
                        ends[m, g] *= ratio
                    norm_squared = radius * radius
        for t in range(n_done, n_pairs):
            ends[m, t] = 0.0
            sums[m, t] = 0.0
        suffix = 0.0
        next_owed = 0.0
        for t in range(n_done - 1, -1, -1):
            suffix = ratios[t] * (next_owed + suffix)
            next_owed = owed[t]
            sums[m, t] = -moves[t] * suffix
        shrinkage[m, 0] = whole
        shrinkage[m, 1] = next_owed + suffix
