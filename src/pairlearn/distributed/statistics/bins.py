# SPDX-License-Identifier: BSD-3-Clause
r"""Where scores are binned: finely about the median, ever more coarsely in the tails.

Edges are c + b sinh(t) for evenly spaced t, with c the median and b half the interquartile range of
some scores, from the smallest to the largest score that the ranges of the features allow. Even bins
would be too wide for the bulk as soon as one feature has a heavy tail.
"""

from __future__ import annotations

import numpy as np

from pairlearn.typing import Vector
from pairlearn.validation import check_count

__all__ = ["score_edges", "score_range"]


def score_range(w: Vector, low: Vector, high: Vector) -> tuple[float, float]:
    """Return the smallest and largest <w, x> with low <= x <= high.

    Parameters
    ----------
    w : ndarray of shape (d,)
        Coefficients.
    low, high : ndarray of shape (d,)
        The range of each feature.

    Returns
    -------
    tuple of float
        Both.

    Examples
    --------
    >>> score_range(np.array([1.0, -2.0]), np.zeros(2), np.ones(2))
    (-2.0, 1.0)
    """
    ends = w * low, w * high
    return float(np.minimum(*ends).sum()), float(np.maximum(*ends).sum())


def score_edges(scores: Vector, low: float, high: float, n_bins: int) -> Vector:
    """Return the n_bins - 1 inner edges of the bins, in increasing order.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Some scores, to see where most of them are.
    low, high : float
        All scores lie between these.
    n_bins : int
        Number of bins, at least 2.

    Returns
    -------
    ndarray of shape (n_bins - 1,)
        The edges.

    Examples
    --------
    >>> edges = score_edges(np.arange(5.0), -1e6, 1e6, 8)
    >>> edges.round(1)
    array([-2.65895e+04, -7.05100e+02, -1.68000e+01,  2.00000e+00,
            2.08000e+01,  7.09100e+02,  2.65934e+04])
    """
    n_bins = check_count("n_bins", n_bins, minimum=2)
    first, centre, last = np.quantile(scores, [0.25, 0.5, 0.75])
    spread = 0.5 * float(last - first) or float(scores.std()) or 1.0
    t = np.linspace(
        np.arcsinh((low - centre) / spread), np.arcsinh((high - centre) / spread), n_bins + 1
    )
    return np.asarray(centre + spread * np.sinh(t[1:-1]))
