# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the linear score on CSR rows: O(nnz) a step, projection and average included.

The iterate is w = s v with a scalar s, so that the projection onto a ball changes s alone, and
||v||^2 follows from the scores: an update by -a x changes it by -2 a <v, x> + a^2 ||x||^2.

The weighted sum A of the iterates is computed in two ways. While the ball is not hit, s = 1 and the
current iterate is not added: it is owed all weights since `base`. Each update by -a D adds a
(paid_t - base) D to A, which corrects for the earlier iterates. From the first hit to the end of
the call, the sum is computed backward. With w_{g+1} = r_g (w_g - a_g D_g) for the g-th gradient
step (r_g the factor of the projection) and o_g the weight owed to w_g,

    sum_g o_g w_g = (o_0 + W_0) w_0 - sum_g a_g W_g D_g,
    W_g = r_g (o_{g+1} + W_{g+1}),  W of the last step = 0.

All terms of W are positive, so nothing cancels, however often the ball is hit. Either way A
receives multiples of D = x - x', which are collected as one coefficient per example: A costs O(1) a
step and one pass over the examples at the end (`add_rows`). A dense pass over the features happens
at most a few times per call.

Arrays
------
data, indices, indptr
    The examples in CSR form, no index twice in a row.
norms, coefficients : float64, shape (n,)
    ||x||^2 of each row; the coefficients of the rows in A, modified in place.
y, left, right, step_sizes, paid, active, left_iterate
    As in the dense kernel.
v, weighted_sum : float64, shape (d,)
    Modified in place. On entry and on return v is the iterate itself.
state : float64, shape (2,)
    Modified in place: `base` as in the dense kernel, and ||w||^2.
start : float64, shape (d,); moves, ratios, owed : float64 and gradient_steps : int32
    Scratch: the iterate at the first hit, and a_g, r_g, o_g and the plan position of each gradient
    step after it, one entry per active step.
"""

import math

import numpy as np

from pairlearn.kernels._native import (
    DIVERGED,
    FINE,
    LOSS_IS_NAN,
    call_scalar,
    kernel,
    part,
    prefetch,
)
from pairlearn.kernels.arguments import Csr
from pairlearn.kernels.steps.pieces import add_multiple, bounds, dot

#: v is rescaled when s falls below the smallest scale, before ||v||^2 can overflow. s then starts
#: from the largest scale, since rescaling is a dense pass and should be rare.
SMALLEST_SCALE = 1e-140
LARGEST_SCALE = 1e140
#: Rows are prefetched this many pairs ahead, up to this many entries of each.
AHEAD = 3
ASKED = 512


@part
def _ask_for(rows, i, numbers):
    """Prefetch a row, and what arrays of numbers hold about it."""
    for array in numbers:
        prefetch(array, np.uintp(i))
    first, last = bounds(rows, i)
    last = min(last, first + np.uintp(ASKED))
    for q in range(first, last, np.uintp(8)):
        prefetch(rows.data, q)
    for q in range(first, last, np.uintp(16)):
        prefetch(rows.indices, q)
    # A row that starts inside a cache line ends in one more.
    if first < last:
        prefetch(rows.data, last - np.uintp(1))
        prefetch(rows.indices, last - np.uintp(1))


@kernel
def row_norms(data, indptr, norms):
    """Fill `norms` with the squared norm of each row."""
    for i in range(len(norms)):
        total = 0.0
        for q in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[q]) * np.float64(data[q])
        norms[i] = total


@kernel
def add_rows(data, indices, indptr, coefficients, weighted_sum):
    """Add the rows times their coefficients to the weighted sum, and clear the coefficients."""
    for i in range(len(coefficients)):
        coefficient = coefficients[i]
        if coefficient != 0.0:
            coefficients[i] = 0.0
            for q in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
                weighted_sum[np.uintp(indices[q])] += coefficient * data[q]


@part
def _move(rows, i, j, step, v):
    """Move v by -step (x_i - x_j); return <v, x_j> after the move along x_i alone.

    No index is twice in a row: four are read before the first of them is written.
    """
    add_multiple(rows, i, -step, v)
    data, indices = rows.data, rows.indices
    one, two, three, four = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
    first, last = bounds(rows, j)
    whole = first + (last - first) // four * four
    m0 = 0.0
    m1 = 0.0
    m2 = 0.0
    m3 = 0.0
    for q in range(first, whole, four):
        x0 = data[q]
        x1 = data[q + one]
        x2 = data[q + two]
        x3 = data[q + three]
        k0 = np.uintp(indices[q])
        k1 = np.uintp(indices[q + one])
        k2 = np.uintp(indices[q + two])
        k3 = np.uintp(indices[q + three])
        v0 = v[k0]
        v1 = v[k1]
        v2 = v[k2]
        v3 = v[k3]
        m0 += x0 * v0
        m1 += x1 * v1
        m2 += x2 * v2
        m3 += x3 * v3
        v[k0] = v0 + step * x0
        v[k1] = v1 + step * x1
        v[k2] = v2 + step * x2
        v[k3] = v3 + step * x3
    for q in range(whole, last):
        k = np.uintp(indices[q])
        v_k = v[k]
        m0 += data[q] * v_k
        v[k] = v_k + step * data[q]
    return (m0 + m1) + (m2 + m3)


@part
def _pay_backward(left, right, moves, ratios, owed, gradient_steps, n_recorded, coefficients):
    """Add the recorded steps to the coefficients; return the factor of w_0 in the sum."""
    suffix = 0.0
    next_owed = 0.0
    for g in range(n_recorded - 1, -1, -1):
        suffix = ratios[g] * (next_owed + suffix)
        next_owed = owed[g]
        weight = moves[g] * suffix
        t = np.uintp(gradient_steps[g])
        coefficients[np.uintp(left[t])] -= weight
        coefficients[np.uintp(right[t])] += weight
    return next_owed + suffix


@kernel
def descend_csr(
    data,
    indices,
    indptr,
    norms,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    v,
    weighted_sum,
    coefficients,
    start,
    left_iterate,
    state,
    radius,
    slope_address,
    parameter,
    keeps_sum,
    keeps_left,
    moves,
    ratios,
    owed,
    gradient_steps,
):
    """Take the active steps of a plan; return a status."""
    rows = Csr(data, indices, indptr)
    numbers = (y, norms)
    d = np.uintp(len(v))
    base = state[0]
    norm_squared = state[1]
    scale = 1.0
    was_hit = False
    n_recorded = 0
    for p in range(n_active):
        t = np.uintp(active[p])
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        if p + AHEAD < n_active:
            ahead = np.uintp(active[p + AHEAD])
            _ask_for(rows, left[ahead], numbers)
            _ask_for(rows, right[ahead], numbers)
        if p + 2 * AHEAD < n_active:
            # Where a row begins must be known when it is asked for.
            further = np.uintp(active[p + 2 * AHEAD])
            prefetch(indptr, np.uintp(left[further]))
            prefetch(indptr, np.uintp(right[further]))
        if keeps_left and p == n_active - 1:
            for k in range(d):
                left_iterate[k] = scale * v[k]
        dot_i = dot(rows, i, v)
        score = scale * (dot_i - dot(rows, j, v))
        slope = call_scalar(slope_address, score, y[i], y[j], parameter)
        if slope == 0.0:
            continue
        if slope != slope:
            return LOSS_IS_NAN + 4 * np.int64(t)
        move = step_sizes[t] * slope
        step = move / scale
        # Rows share features: <v, x_j> changes with the move along x_i.
        met = _move(rows, i, j, step, v)
        norm_squared += step * (step * (norms[i] + norms[j]) + 2.0 * (met - dot_i))
        if not norm_squared < np.inf:
            return DIVERGED + 4 * np.int64(t)
        if was_hit:
            moves[n_recorded] = move
            owed[n_recorded] = paid[t] - base
            gradient_steps[n_recorded] = t
            base = paid[t]
            ratios[n_recorded] = 1.0
            n_recorded += 1
        elif keeps_sum:
            back = move * (paid[t] - base)
            coefficients[i] += back
            coefficients[j] -= back
        norm = scale * math.sqrt(max(norm_squared, 0.0))
        if norm > radius:
            ratio = radius / norm
            if was_hit or not keeps_sum:
                if was_hit:
                    ratios[n_recorded - 1] = ratio
                scale *= ratio
                if scale < SMALLEST_SCALE:
                    norm_squared = 0.0
                    for k in range(d):
                        v[k] *= scale / LARGEST_SCALE
                        norm_squared += v[k] * v[k]
                    scale = LARGEST_SCALE
            else:
                # The first hit: add the weight owed to all iterates so far, then start afresh.
                unpaid = paid[t] - base
                for k in range(d):
                    weighted_sum[k] += unpaid * v[k]
                    v[k] *= ratio
                    start[k] = v[k]
                base = paid[t]
                norm_squared *= ratio * ratio
                was_hit = True
    state[0] = base
    if scale != 1.0:
        for k in range(d):
            v[k] *= scale
        norm_squared *= scale * scale
    state[1] = norm_squared
    if n_recorded > 0:
        multiple = _pay_backward(
            left, right, moves, ratios, owed, gradient_steps, n_recorded, coefficients
        )
        for k in range(d):
            weighted_sum[k] += multiple * start[k]
    return np.int64(FINE)
