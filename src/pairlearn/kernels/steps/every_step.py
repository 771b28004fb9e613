# SPDX-License-Identifier: BSD-3-Clause
r"""Steps that move every coordinate: O(d) each, on dense and on CSR rows.

    w_t = prox(Proj(w_{t-1} - eta_t l' (x - x') - p_t (w_{t-1} - c)), eta_t)

The pull p_t towards the anchor c is that of Algorithm 4; prox is the step of a coordinatewise
domain, coordinate by coordinate. Arrays are those of the dense kernel, without `active`: a step of
size 0 has no pair. Besides:

pulls : float64, shape (n_steps,) or (0,); anchor : real, shape (d,)
    p_t, or nothing to leave it out, and c.
proximal : (lengths, address, first, second)
    eta_t without the weights of the pair; the function of the domain, 0 for none, and its numbers.
"""

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel, part
from pairlearn.kernels.steps.pieces import (
    add_multiple,
    copy,
    dot,
    keep_in_ball,
    pay,
    slope_of,
    squared_norm,
)

#: The status if the domain made a coordinate NaN or infinite.
DOMAIN_IS_NAN = 3


@part
def take_proximal(w, t, proximal):
    """Take the proximal step of step t; return whether w is finite."""
    lengths, address, first, second = proximal
    finite = True
    if address != 0:
        for k in range(len(w)):
            w[k] = call_scalar(address, np.float64(w[k]), lengths[t], first, second)
            finite = finite and abs(w[k]) < np.inf
    return finite


@kernel
def descend_every(
    rows, y, left, right, step_sizes, paid, w, weighted_sum, left_iterate, radius, slope_address,
    parameter, pulls, anchor, proximal,
):  # fmt: skip
    """Take all steps of a plan; return a status."""
    real = w.dtype.type
    base = 0.0
    for t in range(len(left)):
        i, j = left[t], right[t]
        slope = 0.0
        if step_sizes[t] != 0.0:
            score = np.float64(dot(rows, i, w) - dot(rows, j, w))
            slope = slope_of(slope_address, score, y[i], y[j], parameter)
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
        if t == len(left) - 1:
            copy(w, left_iterate)
        pay(w, paid[t] - base, weighted_sum)
        base = paid[t]
        if len(pulls) > 0:
            for k in range(len(w)):
                w[k] -= real(pulls[t]) * (w[k] - anchor[k])
        if slope != 0.0:
            add_multiple(rows, i, -step_sizes[t] * slope, w)
            add_multiple(rows, j, step_sizes[t] * slope, w)
        if not keep_in_ball(w, squared_norm(w), radius):
            return DIVERGED + 4 * np.int64(t)
        if not take_proximal(w, t, proximal):
            return DOMAIN_IS_NAN + 4 * np.int64(t)
    return np.int64(FINE)
