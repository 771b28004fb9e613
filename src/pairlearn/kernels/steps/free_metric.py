# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the score (x - x')' W (x - x') without a constraint, four steps at a time.

Between two projections W moves only by W <- W - c v v'. So a step on v changes the score of another
pair u by -c (v'u)^2. One sweep over W gives the scores of four pairs, which are corrected for the
steps among them; another sweep makes the four steps. The iterates are those of single steps up to
rounding, for half of the memory traffic.

W is symmetric: only vectors of eight columns that begin on or below the diagonal are kept, in a
copy whose rows are padded with zeros to whole vectors. An entry below the blocks of the diagonal
counts twice in a score.

Arrays are those of `pairlearn.kernels.steps.mahalanobis`.
"""

import math

import numpy as np

from pairlearn.kernels._native import (
    DIVERGED,
    FINE,
    LOSS_IS_NAN,
    as_written,
    call_scalar,
    part_as_written,
)
from pairlearn.kernels.steps.vectors import BYTES, filled, plus_product, read, total, write

#: Columns of a vector, and pairs of a sweep.
LANES, PAIRS = 8, 4


def room_of(d):
    """Return scratch space for `descend_free`, whose vectors do not cross lines of the cache."""
    width = -(-d // LANES) * LANES
    size = 2 * width * width + PAIRS * width
    room = np.empty(size + LANES)
    start = -room.ctypes.data % BYTES // room.itemsize
    return room[start : start + size]


@part_as_written
def _unpack(packed, width, d, target, adds):
    """Write the lower half of a packed matrix to both halves of a full one, or add it."""
    for a in range(d):
        for b in range(a + np.uintp(1)):
            value = packed[a * width + b]
            if adds:
                value += target[a * d + b]
            target[a * d + b] = value
            target[b * d + a] = value


@part_as_written
def _scores(W, V, width):
    """Return the scores of four pairs."""
    lanes, one = np.uintp(LANES), np.uintp(1)
    two, three = width + width, width + width + width
    s0 = s1 = s2 = s3 = filled(0.0)
    a = np.uintp(0)
    while a < width:
        block = a // lanes * lanes
        row = a * width
        next_row = row + width
        t0 = t1 = t2 = t3 = filled(0.0)
        u0 = u1 = u2 = u3 = filled(0.0)
        b = np.uintp(0)
        while b <= block:
            if b == block:
                t0 = plus_product(t0, t0, filled(1.0))
                t1 = plus_product(t1, t1, filled(1.0))
                t2 = plus_product(t2, t2, filled(1.0))
                t3 = plus_product(t3, t3, filled(1.0))
                u0 = plus_product(u0, u0, filled(1.0))
                u1 = plus_product(u1, u1, filled(1.0))
                u2 = plus_product(u2, u2, filled(1.0))
                u3 = plus_product(u3, u3, filled(1.0))
            w = read(W, row + b)
            z = read(W, next_row + b)
            v = read(V, b)
            t0 = plus_product(t0, w, v)
            u0 = plus_product(u0, z, v)
            v = read(V, width + b)
            t1 = plus_product(t1, w, v)
            u1 = plus_product(u1, z, v)
            v = read(V, two + b)
            t2 = plus_product(t2, w, v)
            u2 = plus_product(u2, z, v)
            v = read(V, three + b)
            t3 = plus_product(t3, w, v)
            u3 = plus_product(u3, z, v)
            b += lanes
        s0 = plus_product(plus_product(s0, t0, filled(V[a])), u0, filled(V[a + one]))
        s1 = plus_product(
            plus_product(s1, t1, filled(V[width + a])), u1, filled(V[width + a + one])
        )
        s2 = plus_product(plus_product(s2, t2, filled(V[two + a])), u2, filled(V[two + a + one]))
        s3 = plus_product(
            plus_product(s3, t3, filled(V[three + a])), u3, filled(V[three + a + one])
        )
        a += np.uintp(2)
    return total(s0), total(s1), total(s2), total(s3)


@part_as_written
def _add(target, V, factors, width, owed, W):
    """Add the multiples of v v' for four v, and of W if it is owed; return the sum of squares."""
    lanes, one = np.uintp(LANES), np.uintp(1)
    two, three = width + width, width + width + width
    weight = filled(owed)
    squares = others = filled(0.0)
    a = np.uintp(0)
    while a < width:
        row = a * width
        next_row = row + width
        f0, g0 = filled(factors[0] * V[a]), filled(factors[0] * V[a + one])
        f1, g1 = filled(factors[1] * V[width + a]), filled(factors[1] * V[width + a + one])
        f2, g2 = filled(factors[2] * V[two + a]), filled(factors[2] * V[two + a + one])
        f3, g3 = filled(factors[3] * V[three + a]), filled(factors[3] * V[three + a + one])
        b = np.uintp(0)
        while b <= a:
            x, z = read(target, row + b), read(target, next_row + b)
            if owed != 0.0:
                x = plus_product(x, weight, read(W, row + b))
                z = plus_product(z, weight, read(W, next_row + b))
            v = read(V, b)
            x, z = plus_product(x, f0, v), plus_product(z, g0, v)
            v = read(V, width + b)
            x, z = plus_product(x, f1, v), plus_product(z, g1, v)
            v = read(V, two + b)
            x, z = plus_product(x, f2, v), plus_product(z, g2, v)
            v = read(V, three + b)
            x, z = plus_product(x, f3, v), plus_product(z, g3, v)
            write(target, row + b, x)
            write(target, next_row + b, z)
            squares = plus_product(squares, x, x)
            others = plus_product(others, z, z)
            b += lanes
        a += np.uintp(2)
    return total(squares) + total(others)


@part_as_written
def _squared_dot(V, first, second, width):
    """Return the squared product of two differences."""
    found = filled(0.0)
    b = np.uintp(0)
    while b < width:
        found = plus_product(found, read(V, first + b), read(V, second + b))
        b += np.uintp(LANES)
    product = total(found)
    return product * product


@as_written
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
    """Take the active steps; `scratch` comes from `room_of`, and `radius` is not used."""
    d = np.uintp(math.sqrt(len(w)) + 0.5)
    width = (d + np.uintp(LANES - 1)) // np.uintp(LANES) * np.uintp(LANES)
    size = width * width
    W = scratch[:size]
    S = scratch[size : size + size]
    V = scratch[size + size : size + size + np.uintp(PAIRS) * width]
    for a in range(len(scratch)):
        scratch[a] = 0.0
    for a in range(d):
        for b in range(d):
            W[a * width + b] = w[a * d + b]
    base = state[0]
    begin = 0
    while begin < n_active:
        # The last step is made alone: it leaves the iterate that averaging needs.
        m = min(PAIRS, max(n_active - 1 - begin, 1))
        if begin == n_active - 1:
            _unpack(W, width, d, left_iterate, False)
        for k in range(PAIRS):
            row = np.uintp(k) * width
            i = np.uintp(0)
            j = np.uintp(0)
            if k < m:
                i = np.uintp(left[active[begin + k]]) * d
                j = np.uintp(right[active[begin + k]]) * d
            for a in range(d):
                V[row + a] = X[i + a] - X[j + a]
        scores = _scores(W, V, width)
        # The change of W by each step, and the share of it that the average is owed.
        c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
        e0, e1, e2 = 0.0, 0.0, 0.0
        owed = 0.0
        for k in range(m):
            t = active[begin + k]
            own = np.uintp(k) * width
            score = scores[k]
            if k > 0 and c0 != 0.0:
                score += c0 * _squared_dot(V, np.uintp(0), own, width)
            if k > 1 and c1 != 0.0:
                score += c1 * _squared_dot(V, width, own, width)
            if k > 2 and c2 != 0.0:
                score += c2 * _squared_dot(V, width + width, own, width)
            slope = call_scalar(slope_address, score, y[left[t]], y[right[t]], parameter)
            if slope == 0.0:
                continue
            if slope != slope:
                _unpack(W, width, d, w, False)
                return LOSS_IS_NAN + 4 * np.int64(t)
            c = -step_sizes[t] * slope
            pay = paid[t] - base
            base = paid[t]
            owed += pay
            # The iterate added here holds the steps before this one.
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
            _add(S, V, (e0, e1, e2, 0.0), width, owed, W)
        if c0 != 0.0 or c1 != 0.0 or c2 != 0.0 or c3 != 0.0:
            squares = _add(W, V, (c0, c1, c2, c3), width, 0.0, W)
            if not squares < np.inf:
                _unpack(W, width, d, w, False)
                return DIVERGED + 4 * np.int64(active[begin + m - 1])
        begin += m
    _unpack(W, width, d, w, False)
    _unpack(S, width, d, weighted_sum, True)
    state[0] = base
    return np.int64(FINE)
