# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the score h = (x - x')' W (x - x') on dense rows.

A step is W <- P(W - c v v') with v = x - x' and c = eta_t times the slope of the loss. P is the
projection onto the positive semi-definite matrices: it sets the negative eigenvalues to zero.

**At most one eigenvalue is negative.** For c <= 0 the sum of two PSD matrices is PSD. For c > 0 let
A = W - c v v'. On the hyperplane orthogonal to v, x' A x = x' W x >= 0; a subspace on which A is
negative definite meets that hyperplane in 0 only, hence has dimension at most 1. So
P(A) = A - lambda q q' for the one negative eigenpair, if there is one.

The eigenpair lies in the Krylov space of v (`kernels.steps.eigenpair`).

**Often no eigenpair is needed**: the kernel keeps a lower bound of the least eigenvalue, and a step
with c ||v||^2 below it is a plain subtraction.

Arrays (float64)
------
X : shape (n * d,)
    Examples, row after row.
y, left, right, step_sizes, paid, active
    As in `kernels.steps.dense`; sums, too, are paid to the end of the plan.
w, weighted_sum, left_iterate : shape (d * d,), (d,) or (d * r,)
    Modified in place: W (symmetric), its diagonal, or L with W = L L', row after row.
floor : shape (1,)
    Modified in place: a lower bound of the least eigenvalue.
counts : int64, shape (2,)
    Modified in place: the number of searches for the eigenvalue, and of their iterations.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel
from pairlearn.kernels.steps.eigenpair import negative_eigenpair
from pairlearn.kernels.steps.pieces import copy, keep_in_ball, pay


@kernel
def descend_full(
    X, y, left, right, step_sizes, paid, active, w, weighted_sum, left_iterate, radius,
    slope_address, parameter, exact, floor, scratch, counts,
):  # fmt: skip
    """Take the active steps for a full matrix; `scratch` has d * d + 6 d entries.

    With `exact`, every pulling step is projected onto the PSD cone. Otherwise the caller projects
    from time to time. The ball is a scaling after the cone: for a ball around the apex of a cone,
    projecting onto the cone and then onto the ball gives the projection onto the intersection.
    """
    size = len(w)
    d = np.int64(math.sqrt(size) + 0.5)
    v = scratch[:d]
    Wv = scratch[d : 2 * d]
    q = scratch[2 * d : 3 * d]
    alpha = scratch[3 * d : 4 * d]
    beta = scratch[4 * d : 5 * d]
    s = scratch[5 * d : 6 * d]
    basis = scratch[6 * d :]
    radius_squared = radius * radius
    base = 0.0
    for p in range(len(active)):
        t = active[p]
        i = left[t]
        j = right[t]
        if p == len(active) - 1:
            copy(w, left_iterate)
        norm_squared = 0.0
        for a in range(d):
            v[a] = X[i * d + a] - X[j * d + a]
            norm_squared += v[a] * v[a]
        score = 0.0
        for a in range(d):
            total = 0.0
            for b in range(d):
                total += w[a * d + b] * v[b]
            Wv[a] = total
            score += total * v[a]
        slope = call_scalar(slope_address, score, y[i], y[j], parameter)
        if slope == 0.0 or norm_squared == 0.0:
            continue
        if slope != slope:
            return LOSS_IS_NAN + 4 * np.int64(t)
        c = step_sizes[t] * slope
        mu = 0.0
        if exact and c > 0.0:
            fall = c * norm_squared
            if floor[0] >= fall:
                floor[0] -= fall
            else:
                mu = negative_eigenpair(
                    w, v, Wv, norm_squared, c, d, basis, alpha, beta, s, q, counts
                )
                floor[0] = 0.0
        owed = paid[t] - base
        base = paid[t]
        sign = -1.0 if c > 0.0 else 1.0
        length = math.sqrt(abs(c))
        for a in range(d):
            v[a] *= length
        # Products do not depend on the order of their factors: W stays exactly symmetric.
        if mu > 0.0:
            length = math.sqrt(mu)
            for a in range(d):
                q[a] *= length
        if owed != 0.0:
            # Before the tail of a tail average there is nothing to add.
            pay(w, owed, weighted_sum)
        frobenius = 0.0
        for a in range(d):
            v_a = sign * v[a]
            q_a = q[a]
            for b in range(d):
                w_ab = w[a * d + b] + v_a * v[b]
                if mu > 0.0:
                    w_ab += q_a * q[b]
                w[a * d + b] = w_ab
                frobenius += w_ab * w_ab
        if not frobenius < radius_squared:
            if not frobenius < np.inf:
                return DIVERGED + 4 * np.int64(t)
            shrink = radius / math.sqrt(frobenius)
            floor[0] *= shrink
            for a in range(size):
                w[a] *= shrink
    pay(w, paid[-1] - base, weighted_sum)
    return np.int64(FINE)


@kernel
def descend_diagonal(
    X, y, left, right, step_sizes, paid, active, w, weighted_sum, left_iterate, radius,
    slope_address, parameter, scratch,
):  # fmt: skip
    """Take the active steps for a diagonal matrix: projection is setting entries to zero."""
    d = len(w)
    base = 0.0
    for p in range(len(active)):
        t = active[p]
        i = left[t]
        j = right[t]
        if p == len(active) - 1:
            copy(w, left_iterate)
        score = 0.0
        for a in range(d):
            v = X[i * d + a] - X[j * d + a]
            scratch[a] = v * v
            score += w[a] * scratch[a]
        slope = call_scalar(slope_address, score, y[i], y[j], parameter)
        if slope == 0.0:
            continue
        if slope != slope:
            return LOSS_IS_NAN + 4 * np.int64(t)
        c = step_sizes[t] * slope
        owed = paid[t] - base
        base = paid[t]
        norm_squared = 0.0
        for a in range(d):
            weighted_sum[a] += owed * w[a]
            w_a = w[a] - c * scratch[a]
            # A comparison that keeps NaN, unlike max.
            if w_a < 0.0:
                w_a = 0.0
            w[a] = w_a
            norm_squared += w_a * w_a
        if not keep_in_ball(w, norm_squared, radius):
            return DIVERGED + 4 * np.int64(t)
    pay(w, paid[-1] - base, weighted_sum)
    return np.int64(FINE)


@kernel
def descend_low_rank(
    X, y, left, right, step_sizes, paid, active, w, weighted_sum, left_iterate, radius,
    slope_address, parameter, rank, scratch,
):  # fmt: skip
    """Take the active steps for W = L L': the gradient in L is 2 slope v (L'v)'.

    `scratch` has d + rank entries; `radius` bounds the Frobenius norm of L.
    """
    size = len(w)
    d = size // rank
    v = scratch[:d]
    z = scratch[d:]
    base = 0.0
    for p in range(len(active)):
        t = active[p]
        i = left[t]
        j = right[t]
        if p == len(active) - 1:
            copy(w, left_iterate)
        for b in range(rank):
            z[b] = 0.0
        for a in range(d):
            v[a] = X[i * d + a] - X[j * d + a]
            for b in range(rank):
                z[b] += w[a * rank + b] * v[a]
        score = 0.0
        for b in range(rank):
            score += z[b] * z[b]
        slope = call_scalar(slope_address, score, y[i], y[j], parameter)
        if slope == 0.0:
            continue
        if slope != slope:
            return LOSS_IS_NAN + 4 * np.int64(t)
        c = 2.0 * step_sizes[t] * slope
        owed = paid[t] - base
        base = paid[t]
        norm_squared = 0.0
        for a in range(d):
            move = c * v[a]
            for b in range(rank):
                k = a * rank + b
                weighted_sum[k] += owed * w[k]
                w_k = w[k] - move * z[b]
                w[k] = w_k
                norm_squared += w_k * w_k
        if not keep_in_ball(w, norm_squared, radius):
            return DIVERGED + 4 * np.int64(t)
    pay(w, paid[-1] - base, weighted_sum)
    return np.int64(FINE)
