# SPDX-License-Identifier: BSD-3-Clause
r"""The one negative eigenvalue of W - c v v' for a positive semi-definite W and c > 0.

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

The basis is orthogonalised in full, so (c) holds in exact arithmetic and in practice. Each
iteration costs O(d^2), and usually far fewer than d iterations are needed.
"""

import math

import numpy as np

from pairlearn.kernels._native import kernel, part

#: Residuals and negative eigenvalues below these shares of the size of W - c v v' count as zero.
RESIDUAL = 1e-12
NOTHING = 1e-13


@part
def _top_pivot(alpha, beta, k, mu):
    """Return d_1(mu) and its derivative."""
    pivot = alpha[k - 1] + mu
    change = 1.0
    for j in range(k - 2, -1, -1):
        ratio = beta[j] / pivot
        change = 1.0 + ratio * ratio * change
        pivot = alpha[j] + mu - ratio * beta[j]
    return pivot, change


@part
def _root(alpha, beta, k, mu, pivot, change, gamma, size):
    """Return the root of d_1(mu) = gamma by Newton's method from the left."""
    for _ in range(100):
        if pivot >= gamma:
            break
        step = (gamma - pivot) / change
        if step <= 1e-16 * size + 4e-16 * mu:
            break
        mu += step
        pivot, change = _top_pivot(alpha, beta, k, mu)
    return mu


@part
def _fill_coefficients(alpha, beta, k, mu, s):
    """Fill s with a multiple of (T_k + mu I)^{-1} e_1; return its length."""
    # Backward pivots, then forward products.
    s[k - 1] = alpha[k - 1] + mu
    for j in range(k - 2, -1, -1):
        s[j] = alpha[j] + mu - beta[j] * beta[j] / s[j + 1]
    s[0] = 1.0
    length = 1.0
    for j in range(1, k):
        s[j] = -beta[j - 1] * s[j - 1] / s[j]
        length += s[j] * s[j]
    return math.sqrt(length)


@part
def _lower_bound(alpha, beta_k, beta, k, forward, nothing):
    """Return the Gauss-Radau bound of d_1, with one more entry for the unseen part."""
    last = beta_k * beta_k / forward + 0.5 * nothing
    pivot = alpha[k - 1] + nothing - beta_k * beta_k / last
    for j in range(k - 2, -1, -1):
        pivot = alpha[j] + nothing - beta[j] * beta[j] / pivot
    return pivot


@part
def _multiply(W, basis, row, d, q):
    """Fill q with the product of W and a vector of the basis."""
    for a in range(d):
        total = 0.0
        for b in range(d):
            total += W[a * d + b] * basis[row + b]
        q[a] = total


@part
def _dot(q, basis, row, d):
    total = 0.0
    for a in range(d):
        total += q[a] * basis[row + a]
    return total


@part
def _orthogonalise(q, basis, k, d):
    """Make q orthogonal to the first k vectors of the basis; return its length."""
    # Two rounds of Gram-Schmidt.
    for _ in range(2):
        for g in range(k):
            total = _dot(q, basis, g * d, d)
            for a in range(d):
                q[a] -= total * basis[g * d + a]
    return math.sqrt(_dot(q, q, np.uintp(0), d))


@part
def _combine(s, length, basis, k, d, q):
    """Fill q with the combination of the first k vectors of the basis."""
    for a in range(d):
        total = 0.0
        for g in range(k):
            total += s[g] * basis[g * d + a]
        q[a] = total / length


@kernel
def negative_eigenpair(W, v, Wv, norm_squared, c, d, basis, alpha, beta, s, q, counts):
    """Write the eigenvector of the negative eigenvalue of W - c v v' to q; return -eigenvalue.

    Returns 0 if no eigenvalue is below -NOTHING times the size of the matrix. `basis` (d * d),
    `alpha`, `beta`, `s` (d,) are scratch.
    """
    counts[0] += 1
    n = np.int64(d)
    d = np.uintp(n)
    gamma = c * norm_squared
    size = gamma
    for a in range(d):
        size = max(size, W[a * d + a])
    nothing = NOTHING * size
    norm = math.sqrt(norm_squared)
    for a in range(d):
        basis[a] = v[a] / norm
        q[a] = Wv[a] / norm
    mu = nothing
    found = False
    forward = 0.0
    for k in range(1, n + 1):
        counts[1] += 1
        row = np.uintp(k - 1) * d
        if k > 1:
            _multiply(W, basis, row, d, q)
        alpha[k - 1] = _dot(q, basis, row, d)
        beta_k = _orthogonalise(q, basis, np.uintp(k), d)
        complete = k == n or beta_k <= 1e-15 * size
        beta[k - 1] = 0.0 if complete else beta_k
        # The forward pivot of T_k + nothing / 2, kept positive despite rounding.
        shifted = alpha[k - 1] + 0.5 * nothing
        forward = shifted if k == 1 else shifted - beta[k - 2] * beta[k - 2] / forward
        forward = max(forward, 0.25 * nothing)
        pivot, change = _top_pivot(alpha, beta, k, mu)
        # Successive roots differ by the square of the residual, so the root may have converged to
        # the last bit before the vector has.
        found = found or pivot < gamma
        if found:
            mu = _root(alpha, beta, k, mu, pivot, change, gamma, size)
            length = _fill_coefficients(alpha, beta, k, mu, s)
            if complete or beta_k * abs(s[k - 1]) <= RESIDUAL * size * length:
                _combine(s, length, basis, np.uintp(k), d, q)
                return mu
        elif complete or _lower_bound(alpha, beta_k, beta, k, forward, nothing) >= gamma:
            return 0.0
        if not complete:
            for a in range(d):
                basis[row + d + a] = q[a] / beta_k
    return 0.0
