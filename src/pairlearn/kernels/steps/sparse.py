# SPDX-License-Identifier: BSD-3-Clause
r"""The paper's Algorithm 1 on CSR rows: O(nnz) a step, projection and average included.

The iterate is w = s v with a scalar s, so that the projection onto a ball changes s alone. The
weighted sum of the iterates is u + g v with a scalar g: paying the iterate a weight o adds s o to
g, and a move of v by -a (x - x') adds g a (x - x') to u. When s has halved, u takes g v and v
takes s in a dense pass, so that nothing cancels; that is rare, as a projection hardly changes s.

Arrays are those of the dense kernel; rows are (data, indices, indptr). v is the iterate itself on
entry and on return.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, kernel, part
from pairlearn.kernels.steps.pieces import add_multiple, dot, pay, slope_of, squared_norm

#: v takes the factor s when it is below this.
_SMALLEST = 0.5


@part
def _move(rows, i, step, v):
    """Move v by -step x_i; return by how much ||v||^2 grows."""
    data, indices, indptr = rows
    growth = 0.0
    for q in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
        k = np.uintp(indices[q])
        before = v[k]
        v[k] = before - step * data[q]
        growth += v[k] * v[k] - before * before
    return growth


@part
def _settle(s, g, v, u):
    """Let u take g v, and v take s."""
    for k in range(len(v)):
        u[k] += g * v[k]
        v[k] *= s


@kernel
def descend_csr(
    rows, y, left, right, step_sizes, paid, active, v, weighted_sum, left_iterate, radius,
    slope_address, parameter,
):  # fmt: skip
    """Take the active steps of a plan; return a status."""
    s, g, base = 1.0, 0.0, 0.0
    square = squared_norm(v)
    for p in range(len(active)):
        t = np.uintp(active[p])
        i, j = np.uintp(left[t]), np.uintp(right[t])
        if p == len(active) - 1:
            for k in range(len(v)):
                left_iterate[k] = s * v[k]
        score = s * (dot(rows, i, v) - dot(rows, j, v))
        slope = slope_of(slope_address, score, y[i], y[j], parameter)
        if slope != slope:
            return LOSS_IS_NAN + 4 * np.int64(t)
        if slope == 0.0:
            continue
        g += s * (paid[t] - base)
        base = paid[t]
        step = step_sizes[t] * slope / s
        add_multiple(rows, i, g * step, weighted_sum)
        add_multiple(rows, j, -g * step, weighted_sum)
        square += _move(rows, i, step, v)
        square += _move(rows, j, -step, v)
        if not square < np.inf:
            return DIVERGED + 4 * np.int64(t)
        norm = s * math.sqrt(max(square, 0.0))
        if norm > radius:
            s *= radius / norm
            if s < _SMALLEST:
                _settle(s, g, v, weighted_sum)
                s, g, square = 1.0, 0.0, squared_norm(v)
    _settle(s, g, v, weighted_sum)
    pay(v, paid[-1] - base, weighted_sum)
    return np.int64(FINE)
