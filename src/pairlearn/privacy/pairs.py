# SPDX-License-Identifier: BSD-3-Clause
r"""Gradients of a clipped pair loss over all pairs, and how much one example moves them.

For examples x_1, ..., x_n with labels the risk is

    F_S(w) = 1/(n (n - 1)) sum over (i, j) with y_i = 1, y_j = -1 of l(w . v_ij),
    v_ij = clip_C(x_i - x_j),

with l(m) = log(1 + e^-m). Clipping a *pair* to length C keeps the loss convex and (C^2/4)-smooth
(it is the same loss at another input) and does not depend on where the origin is.

**Pair lemma.** With slopes \|l'\| <= s, replacing one example changes the gradient of F_S by at
most 2 C s / n.

*Proof.* Let z = (x, y) become z' = (x', y'). Pairs without it do not change. Take any of the n - 1
partners u. If y = y', the pair (z, u) is active in both or in neither; if active, its gradient,
a vector of length at most C s, becomes another such vector: a change of at most 2 C s. If
y != y', then the pair with u is active in exactly one of the two data sets (u is opposite to
exactly one of y, y'): a change of at most C s. Sum over n - 1 partners and divide by n (n - 1). []

Clipping per *example*, as for losses that are sums over examples, would not give a bound: an
example also sits in the terms of all others.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["PairGradient", "clip_rows", "logistic_slope"]

Vector = NDArray[np.float64]

# Differences are stored whole up to this many numbers, and made again in chunks beyond.
_STORED_NUMBERS = 1 << 24


def clip_rows(V: Vector, radius: float) -> Vector:
    """Return rows scaled down to length at most `radius`.

    Parameters
    ----------
    V : ndarray of shape (n, d)
        Rows.
    radius : float
        The largest length.

    Returns
    -------
    ndarray
        Clipped rows.

    Examples
    --------
    >>> clip_rows(np.array([[3.0, 4.0]]), 1.0)
    array([[0.6, 0.8]])
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", V, V))
    clipped: Vector = V * (radius / np.maximum(lengths, radius))[:, None]
    return clipped


def logistic_slope(margin: float) -> float:
    """Return the largest slope of the logistic loss over margins of at most `margin`.

    Parameters
    ----------
    margin : float
        Bound on the absolute margin.

    Returns
    -------
    float
        1 / (1 + exp(-margin)).

    Examples
    --------
    >>> logistic_slope(0.0)
    0.5
    """
    return 1.0 / (1.0 + math.exp(-margin))


class PairGradient:
    """The gradient of the clipped logistic pair risk of the module.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Examples.
    signs : ndarray of shape (n,)
        Labels, -1 or +1.
    radius : float
        The clipping radius C.

    Examples
    --------
    >>> gradient = PairGradient(np.array([[1.0], [0.0]]), np.array([1.0, -1.0]), radius=2.0)
    >>> gradient(np.zeros(1))
    array([-0.25])
    """

    def __init__(self, Z: Vector, signs: Vector, *, radius: float) -> None:
        self._positive = Z[signs > 0]
        self._negative = Z[signs < 0]
        self._radius = radius
        self._n_features = Z.shape[1]
        n = len(Z)
        self._scale = 1.0 / max(1, n * (n - 1))
        self._stored: Vector | None = None
        if len(self._positive) * len(self._negative) * Z.shape[1] <= _STORED_NUMBERS:
            self._stored = self._differences(self._positive)

    def _differences(self, positive: Vector) -> Vector:
        flat = (positive[:, None, :] - self._negative[None, :, :]).reshape(-1, self._n_features)
        return clip_rows(flat, self._radius)

    def __call__(self, w: Vector) -> Vector:
        """Return the gradient at `w`."""
        if self._stored is not None:
            return self._scale * _sum_of_slopes(self._stored, w)
        chunk = max(1, _STORED_NUMBERS // max(1, len(self._negative) * self._n_features))
        total = np.zeros(self._n_features)
        for start in range(0, len(self._positive), chunk):
            total += _sum_of_slopes(self._differences(self._positive[start : start + chunk]), w)
        return self._scale * total


def _sum_of_slopes(V: Vector, w: Vector) -> Vector:
    margins = V @ w
    # 1 / (1 + e^m) without overflow.
    slopes = 0.5 * (1.0 - np.tanh(0.5 * margins))
    total: Vector = -(slopes @ V)
    return total
