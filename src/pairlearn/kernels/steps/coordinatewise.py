# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the linear score in a coordinatewise domain: a proximal step after each step.

    w_t = prox(w_{t-1} - eta_t l' (x - x'), eta_t), coordinate by coordinate

On CSR rows a projecting step costs O(nnz): the other coordinates stay where they are, inside the
domain. The averaging weight owed to a coordinate is added when it moves (`since`) or at the end.

Arrays (besides those of the dense kernel, whose arguments they take in the same order)
------
proximal : (step_sizes, address, first, second, every_step)
    The domain: eta_t without the weights of the pair, its function (of a row for dense rows, of a
    number for sparse ones), its parameters, and whether it acts at steps without a gradient too.
since : float64, shape (d,)
    Scratch: the value of `paid` up to which the weighted sum holds each coordinate.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pairlearn.kernels._native import (
    DIVERGED,
    FINE,
    LOSS_IS_NAN,
    call_scalar,
    kernel,
    part,
    prefetch,
)
from pairlearn.kernels.steps.dense import AHEAD, NEAR

#: The status if the domain made a coordinate NaN or infinite.
DOMAIN_IS_NAN = 3


@intrinsic
def _call_row(typing_context, address, row, step_size, first, second):
    """Call the compiled function at ``address`` for each number of a row."""

    def generate(context, builder, signature, arguments):
        address, row, *others = arguments
        array = context.make_array(signature.args[1])(context, builder, row)
        kinds = [array.data.type, array.nitems.type] + [ir.DoubleType()] * 3
        pointer = ir.FunctionType(ir.VoidType(), kinds).as_pointer()
        builder.call(builder.inttoptr(address, pointer), [array.data, array.nitems, *others])
        return context.get_dummy_value()

    return types.void(types.intp, row, *[types.float64] * 3), generate


@part
def take_proximal(w, t, proximal):
    """Take the proximal step of step t."""
    step_sizes, address, first, second, _ = proximal
    _call_row(address, w, step_sizes[t], first, second)


@part
def ended(w, t):
    """Return the status after step t: whether the coordinates are still finite."""
    total = 0.0
    for k in range(len(w)):
        total += 0.0 * w[k]
    return np.int64(FINE) if total == 0.0 else DOMAIN_IS_NAN + 4 * np.int64(t)


@part
def _ask_for_row(X, start, d):
    """Prefetch up to eight lines of the row that begins at `start`."""
    line = np.uintp(64 // X.itemsize)
    prefetched = min(d, np.uintp(8) * line)
    for k in range(np.uintp(0), prefetched, line):
        prefetch(X, start + k)
    # A row that starts inside a cache line ends in one more.
    prefetch(X, start + prefetched - np.uintp(1))


@kernel
def descend_coordinatewise(
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
    difference,
    state,
    proximal,
    slope_address,
    parameter,
):
    """Take the active steps of a plan, or every step, on dense rows; return a status."""
    real = X.dtype.type
    d = np.uintp(len(w))
    far = X.nbytes > NEAR
    every_step = proximal[4]
    base = state[0]
    t = np.uintp(0)
    p = 0
    n_taken = len(left) if every_step else n_active
    for taken in range(n_taken):
        t = np.uintp(taken) if every_step else np.uintp(active[taken])
        if taken == n_taken - 1:
            for k in range(d):
                left_iterate[k] = w[k]
        slope = 0.0
        if p < n_active and np.uintp(active[p]) == t:
            i = np.uintp(left[t])
            j = np.uintp(right[t])
            a = i * d
            b = j * d
            if far and p + AHEAD < n_active:
                ahead = np.uintp(active[p + AHEAD])
                _ask_for_row(X, np.uintp(left[ahead]) * d, d)
                _ask_for_row(X, np.uintp(right[ahead]) * d, d)
            p += 1
            score = real(0.0)
            for k in range(d):
                x_k = X[a + k] - X[b + k]
                difference[k] = x_k
                score += w[k] * x_k
            slope = call_scalar(slope_address, np.float64(score), y[i], y[j], parameter)
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
        if slope == 0.0 and not every_step:
            continue
        owed = real(paid[t] - base)
        base = paid[t]
        if slope == 0.0:
            for k in range(d):
                weighted_sum[k] += owed * w[k]
        else:
            step = real(step_sizes[t] * slope)
            norm_squared = real(0.0)
            for k in range(d):
                w_k = w[k]
                weighted_sum[k] += owed * w_k
                w_k -= step * difference[k]
                w[k] = w_k
                norm_squared += w_k * w_k
            if not norm_squared < np.inf:
                return DIVERGED + 4 * np.int64(t)
        take_proximal(w, t, proximal)
    state[0] = base
    return ended(w, t)


@part
def _pay(data, indices, indptr, row, factor, paid, w, weighted_sum, since):
    """Pay the coordinates of a row and add a multiple of the row; return their sum of squares."""
    total = 0.0
    for q in range(np.uintp(indptr[row]), np.uintp(indptr[row + np.uintp(1)])):
        k = np.uintp(indices[q])
        weighted_sum[k] += (paid - since[k]) * w[k]
        since[k] = paid
        w[k] += factor * data[q]
        total += w[k] * w[k]
    return total


@part
def _project(indices, indptr, row, step_size, proximal, w):
    """Project the coordinates of a row."""
    _, address, first, second, _ = proximal
    for q in range(np.uintp(indptr[row]), np.uintp(indptr[row + np.uintp(1)])):
        k = np.uintp(indices[q])
        w[k] = call_scalar(address, w[k], step_size, first, second)


@kernel
def descend_coordinatewise_csr(
    data,
    indices,
    indptr,
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
    since,
    state,
    proximal,
    slope_address,
    parameter,
):
    """Take the active steps of a plan on CSR rows, for a domain that projects; return a status."""
    d = np.uintp(len(w))
    one = np.uintp(1)
    base = state[0]
    t = np.uintp(0)
    for k in range(d):
        since[k] = base
    for p in range(n_active):
        t = np.uintp(active[p])
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        if p == n_active - 1:
            for k in range(d):
                left_iterate[k] = w[k]
        score = 0.0
        for q in range(np.uintp(indptr[i]), np.uintp(indptr[i + one])):
            score += data[q] * w[np.uintp(indices[q])]
        for q in range(np.uintp(indptr[j]), np.uintp(indptr[j + one])):
            score -= data[q] * w[np.uintp(indices[q])]
        slope = call_scalar(slope_address, score, y[i], y[j], parameter)
        if slope == 0.0:
            continue
        if slope != slope:
            return LOSS_IS_NAN + 4 * np.int64(t)
        step = step_sizes[t] * slope
        base = paid[t]
        # A coordinate of both rows is paid once, and projected after both moves.
        total = _pay(data, indices, indptr, i, -step, base, w, weighted_sum, since)
        total += _pay(data, indices, indptr, j, step, base, w, weighted_sum, since)
        if not total < np.inf:
            return DIVERGED + 4 * np.int64(t)
        _project(indices, indptr, i, proximal[0][t], proximal, w)
        _project(indices, indptr, j, proximal[0][t], proximal, w)
    for k in range(d):
        weighted_sum[k] += (base - since[k]) * w[k]
    state[0] = base
    return ended(w, t)
