# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the score h = (x - x')' W (x - x') on dense rows.

A step is W <- P(W - c v v') with v = x - x' and c = eta_t times the slope of the loss. P is the
projection onto the positive semi-definite matrices: it sets the negative eigenvalues to zero.

**At most one eigenvalue is negative.** For c <= 0 the sum of two PSD matrices is PSD. For c > 0 let
A = W - c v v'. On the hyperplane orthogonal to v, x' A x = x' W x >= 0; a subspace on which A is
negative definite meets that hyperplane in 0 only, hence has dimension at most 1. So
P(A) = A - lambda q q' for the one negative eigenpair, if there is one.

**It is found in the Krylov space of v.** A q = lambda q with mu = -lambda > 0 gives
(W + mu I) q = c (v'q) v, so q is a multiple of (W + mu I)^{-1} v and mu solves
c v' (W + mu I)^{-1} v = 1. Lanczos' method from v / ||v|| turns W into a tridiagonal T_k, and with
gamma = c ||v||^2 the equation into gamma (T_k + mu I)^{-1}_{11} = 1, that is d_1(mu) = gamma for
the backward pivots

    d_k = alpha_k + mu,    d_j = alpha_j + mu - beta_j^2 / d_{j+1}.

d_1 is increasing and concave in mu, so Newton's method from the left never passes the root, and
the root grows with k, so it starts from that of k - 1.

**When to stop.** (a) A root with s = (T_k + mu I)^{-1} e_1: the Ritz pair has the residual
rho = beta_k |s_k| / ||s||. All other eigenvalues of A are >= 0, hence at least |theta| away from
theta = -mu, so that sin(q, q~) <= rho / |theta| and |lambda - theta| <= rho; therefore
||lambda q q' - theta q~ q~'||_F <= |lambda - theta| + sqrt(2) |theta| sin(q, q~) <= 2.5 rho.
The error of a step is the residual, however close to zero the eigenvalue is. (b) No root: W >= 0
bounds the part of W that Lanczos has not seen. Its contribution enters T_k as
-beta_k^2 m(mu) in the last entry, where m(mu) is the mean of 1 / (x + mu) under a probability
distribution. T_k - beta_k^2 m(0) e_k e_k' >= 0 gives 1 / m(0) >= a := beta_k^2 / delta_k with the
forward pivots delta of T_k, and -m' >= m^2 (Jensen) gives 1 / m(mu) >= a + mu. So d_1 with one more
entry, d_{k+1} = a + mu, is a lower bound (Gauss-Radau), and if it is >= gamma at
mu = tolerance, no eigenvalue of A is below -tolerance. (c) k = d: nothing is left unseen.

The basis is orthogonalised in full, so that (c) is reached in exact arithmetic and in practice;
each iteration costs O(d^2), and the number of iterations is far below d as a rule.

**Often nothing need be computed**: a lower bound of the least eigenvalue is carried along, and a
step with gamma below it is a plain subtraction.

Arrays (float64)
------
X : shape (n * d,)
    Examples, row after row.
y, left, right, step_sizes, paid, active
    As in `kernels.dense`.
w, weighted_sum, left_iterate : shape (d * d,), (d,) or (d * r,)
    Modified in place: W (symmetric), its diagonal, or L with W = L L', row after row.
state : shape (2,)
    Modified in place: the value of `paid` up to which the iterate has been paid, and a lower bound
    of the least eigenvalue.
counts : int64, shape (2,)
    Modified in place: how often the eigenvalue was looked for, and the iterations this took.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel

#: Residuals and negative eigenvalues below this share of the size of W - c v v' are nothing.
RESIDUAL = 1e-12
NOTHING = 1e-13


@kernel
def _top_pivot(alpha, beta, k, mu):
    """Return d_1(mu) and its derivative."""
    pivot = alpha[k - 1] + mu
    change = 1.0
    for j in range(k - 2, -1, -1):
        ratio = beta[j] / pivot
        change = 1.0 + ratio * ratio * change
        pivot = alpha[j] + mu - ratio * beta[j]
    return pivot, change


@kernel
def negative_eigenpair(W, v, Wv, norm_squared, c, d, basis, alpha, beta, s, q, counts):
    """Write the eigenvector of the negative eigenvalue of W - c v v' to q; return -eigenvalue.

    Returns 0 if no eigenvalue is below -NOTHING times the size of the matrix. `basis` (d * d),
    `alpha`, `beta`, `s` (d,) are scratch.
    """
    counts[0] += 1
    gamma = c * norm_squared
    size = gamma
    for a in range(d):
        size = max(size, W[a * d + a])
    nothing = NOTHING * size
    enough = RESIDUAL * size
    norm = math.sqrt(norm_squared)
    for a in range(d):
        basis[a] = v[a] / norm
        q[a] = Wv[a] / norm
    mu = nothing
    found = False
    forward = 0.0
    for k in range(1, d + 1):
        counts[1] += 1
        row = (k - 1) * d
        if k > 1:
            for a in range(d):
                total = 0.0
                for b in range(d):
                    total += W[a * d + b] * basis[row + b]
                q[a] = total
        total = 0.0
        for a in range(d):
            total += q[a] * basis[row + a]
        alpha[k - 1] = total
        # Two rounds of Gram-Schmidt against the whole basis.
        for _ in range(2):
            for g in range(k):
                total = 0.0
                for a in range(d):
                    total += q[a] * basis[g * d + a]
                for a in range(d):
                    q[a] -= total * basis[g * d + a]
        total = 0.0
        for a in range(d):
            total += q[a] * q[a]
        beta_k = math.sqrt(total)
        complete = k == d or beta_k <= 1e-15 * size
        beta[k - 1] = 0.0 if complete else beta_k
        # Forward pivot of T_k + nothing / 2, kept positive against rounding.
        shifted = alpha[k - 1] + 0.5 * nothing
        forward = shifted if k == 1 else shifted - beta[k - 2] * beta[k - 2] / forward
        forward = max(forward, 0.25 * nothing)
        pivot, change = _top_pivot(alpha, beta, k, mu)
        # Once there is a root, later ones differ from it by the square of the residual: it may
        # have converged to the last bit when the vector has not.
        if found or pivot < gamma:
            found = True
            for _ in range(100):
                if pivot >= gamma:
                    break
                step = (gamma - pivot) / change
                if step <= 1e-16 * size + 4e-16 * mu:
                    break
                mu += step
                pivot, change = _top_pivot(alpha, beta, k, mu)
            # s = (T_k + mu I)^{-1} e_1, up to a factor: backward pivots, then forward products.
            s[k - 1] = alpha[k - 1] + mu
            for j in range(k - 2, -1, -1):
                s[j] = alpha[j] + mu - beta[j] * beta[j] / s[j + 1]
            s[0] = 1.0
            length = 1.0
            for j in range(1, k):
                s[j] = -beta[j - 1] * s[j - 1] / s[j]
                length += s[j] * s[j]
            length = math.sqrt(length)
            if complete or beta_k * abs(s[k - 1]) <= enough * length:
                for a in range(d):
                    total = 0.0
                    for g in range(k):
                        total += s[g] * basis[g * d + a]
                    q[a] = total / length
                return mu
        elif complete:
            return 0.0
        else:
            # The Gauss-Radau bound: one more entry, for what has not been seen.
            last = beta_k * beta_k / forward + 0.5 * nothing
            pivot = alpha[k - 1] + nothing - beta_k * beta_k / last
            for j in range(k - 2, -1, -1):
                pivot = alpha[j] + nothing - beta[j] * beta[j] / pivot
            if pivot >= gamma:
                return 0.0
        if not complete:
            for a in range(d):
                basis[k * d + a] = q[a] / beta_k
    return 0.0


@kernel
def descend_full(
    X,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    w,
    weighted_sum,
    left_iterate,
    state,
    radius,
    slope_address,
    parameter,
    exact,
    scratch,
    counts,
):
    """Take the active steps for a full matrix; `scratch` has d * d + 6 d entries.

    With `exact` every pulling step is projected onto the PSD cone; without it the caller
    projects from time to time (`descend_free` is faster then, if there is no ball). The ball is a
    scaling, after the cone: for a cone and a ball around its apex the projection onto the
    intersection is one after the other.
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
    base = state[0]
    floor = state[1]
    for p in range(n_active):
        t = active[p]
        i = left[t]
        j = right[t]
        if p == n_active - 1:
            for a in range(size):
                left_iterate[a] = w[a]
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
            if floor >= fall:
                floor -= fall
            else:
                mu = negative_eigenpair(
                    w, v, Wv, norm_squared, c, d, basis, alpha, beta, s, q, counts
                )
                floor = 0.0
        owed = paid[t] - base
        base = paid[t]
        sign = -1.0 if c > 0.0 else 1.0
        length = math.sqrt(abs(c))
        for a in range(d):
            v[a] *= length
        # Products of two numbers do not depend on their order: W stays symmetric to the bit.
        if mu > 0.0:
            length = math.sqrt(mu)
            for a in range(d):
                q[a] *= length
        if owed != 0.0:
            # Apart from the step: before the tail of a tail average there is nothing to pay.
            for a in range(size):
                weighted_sum[a] += owed * w[a]
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
            floor *= shrink
            for a in range(size):
                w[a] *= shrink
    state[0] = base
    state[1] = floor
    return np.int64(FINE)


@kernel
def _dot(u, v):
    total = 0.0
    for a in range(len(u)):
        total += u[a] * v[a]
    return total


@kernel
def descend_free(
    X,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    w,
    weighted_sum,
    left_iterate,
    state,
    radius,
    slope_address,
    parameter,
    scratch,
):
    """Take the active steps for a full matrix without a constraint, four at a time.

    Between two projections W moves by W <- W - c v v' only, so that the score of a pair changes by
    -c (v'u)^2 when another one, u, is stepped on. The scores of four pairs are found in one sweep
    over W, corrected for the steps among them, and the four steps made in another: the same
    iterates as one by one, up to rounding, for half of the traffic. `scratch` has 4 d entries,
    `radius` is not used.
    """
    size = len(w)
    d = np.int64(math.sqrt(size) + 0.5)
    v0 = scratch[:d]
    v1 = scratch[d : 2 * d]
    v2 = scratch[2 * d : 3 * d]
    v3 = scratch[3 * d : 4 * d]
    base = state[0]
    begin = 0
    while begin < n_active:
        # The last step is made alone: it leaves the iterate that averaging asks for.
        m = min(4, max(n_active - 1 - begin, 1))
        if begin == n_active - 1:
            for a in range(size):
                left_iterate[a] = w[a]
        for k in range(4):
            i = left[active[begin + k]] if k < m else 0
            j = right[active[begin + k]] if k < m else 0
            for a in range(d):
                scratch[k * d + a] = X[i * d + a] - X[j * d + a]
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for a in range(d):
            t0 = 0.0
            t1 = 0.0
            t2 = 0.0
            t3 = 0.0
            for b in range(d):
                w_ab = w[a * d + b]
                t0 += w_ab * v0[b]
                t1 += w_ab * v1[b]
                t2 += w_ab * v2[b]
                t3 += w_ab * v3[b]
            s0 += t0 * v0[a]
            s1 += t1 * v1[a]
            s2 += t2 * v2[a]
            s3 += t3 * v3[a]
        # What each step adds to W, and the share of it that the average is owed.
        c0 = 0.0
        c1 = 0.0
        c2 = 0.0
        c3 = 0.0
        e0 = 0.0
        e1 = 0.0
        e2 = 0.0
        owed = 0.0
        for k in range(m):
            t = active[begin + k]
            if k == 0:
                score = s0
            elif k == 1:
                score = s1 + c0 * _dot(v0, v1) ** 2
            elif k == 2:
                score = s2 + c0 * _dot(v0, v2) ** 2 + c1 * _dot(v1, v2) ** 2
            else:
                score = s3 + c0 * _dot(v0, v3) ** 2
                score += c1 * _dot(v1, v3) ** 2 + c2 * _dot(v2, v3) ** 2
            slope = call_scalar(slope_address, score, y[left[t]], y[right[t]], parameter)
            if slope == 0.0:
                continue
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
            c = -step_sizes[t] * slope
            pay = paid[t] - base
            base = paid[t]
            owed += pay
            # The iterate that is paid holds the steps before this one.
            e0 += pay * c0
            e1 += pay * c1
            e2 += pay * c2
            if k == 0:
                c0 = c
            elif k == 1:
                c1 = c
            elif k == 2:
                c2 = c
            else:
                c3 = c
        if owed != 0.0:
            for a in range(d):
                f0 = e0 * v0[a]
                f1 = e1 * v1[a]
                f2 = e2 * v2[a]
                for b in range(d):
                    weighted_sum[a * d + b] += (
                        owed * w[a * d + b] + f0 * v0[b] + f1 * v1[b] + f2 * v2[b]
                    )
        frobenius = 0.0
        for a in range(d):
            f0 = c0 * v0[a]
            f1 = c1 * v1[a]
            f2 = c2 * v2[a]
            f3 = c3 * v3[a]
            for b in range(d):
                w_ab = w[a * d + b] + f0 * v0[b] + f1 * v1[b] + f2 * v2[b] + f3 * v3[b]
                w[a * d + b] = w_ab
                frobenius += w_ab * w_ab
        if not frobenius < np.inf:
            return DIVERGED + 4 * np.int64(active[begin + m - 1])
        begin += m
    state[0] = base
    return np.int64(FINE)


@kernel
def descend_diagonal(
    X,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    w,
    weighted_sum,
    left_iterate,
    state,
    radius,
    slope_address,
    parameter,
    scratch,
):
    """Take the active steps for a diagonal matrix: projection is setting entries to zero."""
    d = len(w)
    radius_squared = radius * radius
    base = state[0]
    for p in range(n_active):
        t = active[p]
        i = left[t]
        j = right[t]
        if p == n_active - 1:
            for a in range(d):
                left_iterate[a] = w[a]
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
        if not norm_squared < radius_squared:
            if not norm_squared < np.inf:
                return DIVERGED + 4 * np.int64(t)
            shrink = radius / math.sqrt(norm_squared)
            for a in range(d):
                w[a] *= shrink
    state[0] = base
    return np.int64(FINE)


@kernel
def descend_low_rank(
    X,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    w,
    weighted_sum,
    left_iterate,
    state,
    radius,
    slope_address,
    parameter,
    rank,
    scratch,
):
    """Take the active steps for W = L L': the gradient in L is 2 slope v (L'v)'.

    `scratch` has d + rank entries; `radius` bounds the Frobenius norm of L.
    """
    size = len(w)
    d = size // rank
    v = scratch[:d]
    z = scratch[d:]
    radius_squared = radius * radius
    base = state[0]
    for p in range(n_active):
        t = active[p]
        i = left[t]
        j = right[t]
        if p == n_active - 1:
            for a in range(size):
                left_iterate[a] = w[a]
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
        if not norm_squared < radius_squared:
            if not norm_squared < np.inf:
                return DIVERGED + 4 * np.int64(t)
            shrink = radius / math.sqrt(norm_squared)
            for a in range(size):
                w[a] *= shrink
    state[0] = base
    return np.int64(FINE)
