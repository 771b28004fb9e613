# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate the scalar function of a loss on arrays of pairs."""

from pairlearn.kernels._native import call_scalar, kernel


@kernel
def call_each(address, scores, y, y_partner, parameter, result):
    """Fill `result` with the function of each pair."""
    for k in range(len(scores)):
        result[k] = call_scalar(address, scores[k], y[k], y_partner[k], parameter)
