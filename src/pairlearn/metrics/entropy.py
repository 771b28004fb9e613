# SPDX-License-Identifier: BSD-3-Clause
r"""Renyi's quadratic entropy of residuals, estimated with a Parzen window (section 2.1)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.metrics._inputs import check_scores
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

#: Pairs in a block of the exact sum.
_BLOCK = 1 << 16
#: "auto" computes all pairs for at most this number of residuals; beyond that it uses bins.
_MOST_EXACT = 512
#: Bins per bandwidth.
_BINS_PER_BANDWIDTH = 32
#: Empty bins are stored too if there are fewer than this number of bins per occupied one.
_GAPS = 16
#: The most bandwidths that errors may span: more than their doubles can tell apart.
_WIDEST = 1e300


def _gaussian(u: Vector) -> Vector:
    return np.asarray(np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi))


def _epanechnikov(u: Vector) -> Vector:
    return np.asarray(0.75 * np.maximum(1.0 - u * u, 0.0))


#: Name -> (window as a density of u = (e - e') / gamma, the |u| beyond which it is negligible).
DENSITIES: dict[str, tuple[Callable[[Vector], Vector], float]] = {
    "gaussian": (_gaussian, 9.0),
    "epanechnikov": (_epanechnikov, 1.0),
}


def error_entropy(
    errors: ArrayLike, bandwidth: float, *, window: str = "gaussian", method: str = "auto"
) -> float:
    r"""Return the empirical entropy of errors.

    H = -log 1/(n^2 gamma) sum over all i, j of G((e_i - e_j) / gamma), including the pairs i = j
    as in the paper. Smaller is better: equal errors give the least value, log(gamma / G(0)). Adding
    a constant to all errors changes nothing.

    Parameters
    ----------
    errors : array-like of shape (n,)
        Errors y - h(x).
    bandwidth : float
        The bandwidth gamma > 0. Only entropies of equal bandwidth are comparable.
    window : {"gaussian", "epanechnikov"}, default="gaussian"
        The window G, a density: the normal one or 3/4 (1 - u^2)_+.
    method : {"auto", "exact", "binned"}, default="auto"
        "exact" visits all pairs within the window, in blocks. "binned" splits each error between
        the two nearest bins of width gamma / 32; it costs O(n log n) for any range of errors, with
        a relative error of the sum of about 1e-4 for the Gaussian window. "auto" is exact up to 512
        errors.

    Returns
    -------
    float
        The entropy in nats.

    Examples
    --------
    >>> round(error_entropy([0.0, 0.0, 5.0], 1.0), 4)
    1.5067
    >>> error_entropy([0.0, 0.0, 5.0], 1.0) == error_entropy([3.0, 3.0, 8.0], 1.0)
    True
    """
    e = np.sort(check_scores("errors", errors))
    if len(e) == 0:
        raise ValueError("errors must hold at least one number, got none.")
    gamma = check_positive("bandwidth", bandwidth)
    if window not in DENSITIES:
        raise ValueError(f"window must be one of {sorted(DENSITIES)}, got {window!r}.")
    if method not in ("auto", "exact", "binned"):
        raise ValueError(f'method must be "auto", "exact" or "binned", got {method!r}.')
    density, reach = DENSITIES[window]
    exact = method == "exact" or (method == "auto" and len(e) <= _MOST_EXACT)
    with np.errstate(over="ignore"):
        u = (e - e[0]) / gamma
    if not u[-1] <= _WIDEST:
        raise ValueError(
            f"errors from {e[0]:g} to {e[-1]:g} are more than {_WIDEST:g} bandwidths apart, got "
            f"bandwidth={gamma:g}; take a larger one, or another unit."
        )
    total = (_exact if exact else _binned)(u, density, reach)
    return math.log(gamma) - math.log(total / len(e) ** 2)


def _exact(u: Vector, density: Callable[[Vector], Vector], reach: float) -> float:
    """Return the sum of the window over all ordered pairs of sorted values."""
    last = np.searchsorted(u, u + reach, side="right")
    total = 0.0
    start = 0
    while start < len(u):
        rows = max(1, _BLOCK // max(int(last[start]) - start, 1))
        block = slice(start, start + rows)
        stop = int(last[block].max())
        # each pair once, from its smaller member; the diagonal is added separately
        gaps = u[start:stop] - u[block, None]
        after = np.arange(start, stop) > np.arange(start, min(start + rows, len(u)))[:, None]
        total += 2.0 * float(density(gaps)[after].sum())
        start += rows
    return total + len(u) * float(density(np.zeros(1))[0])


def _binned(u: Vector, density: Callable[[Vector], Vector], reach: float) -> float:
    """Return the sum of the window with every value split between its two nearest bins."""
    from pairlearn.kernels.entropy import share_among_bins, sum_near_bins, sum_near_places

    bins, counts = np.empty(2 * len(u)), np.empty(2 * len(u))
    n = share_among_bins(u * _BINS_PER_BANDWIDTH, bins, counts)
    weights = _weights_of_bins(density, reach)
    bins, counts = bins[:n], counts[:n]
    if bins[-1] >= _GAPS * n:
        return float(sum_near_bins(bins, counts, weights))
    n_places = int(bins[-1]) + 1
    places = np.zeros(n_places + len(weights))
    places[bins.astype(np.intp)] = counts
    return float(sum_near_places(places, weights, n_places))


@functools.cache
def _weights_of_bins(density: Callable[[Vector], Vector], reach: float) -> Vector:
    """Return the window at the distances of bins."""
    weights = density(np.arange(math.ceil(reach * _BINS_PER_BANDWIDTH) + 1) / _BINS_PER_BANDWIDTH)
    # the part cut off is far below the error of the bins
    return np.asarray(weights[weights > 1e-9 * weights[0]])
