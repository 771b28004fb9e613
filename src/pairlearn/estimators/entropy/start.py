# SPDX-License-Identifier: BSD-3-Clause
"""Starting points, scales and locations of errors for `EntropyRegressor`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.estimators.shared.weights import representatives
from pairlearn.solvers.rows import NO_WEIGHTS, CsrRows, DenseRows, Rows
from pairlearn.typing import Vector

INTERCEPTS = ("median", "mean", "mode")

#: Pairs that the quartile of the differences is estimated from.
_PAIRS = 16_384
#: All pairs are taken if there are at most this many: those of the 256 errors a stream begins with.
_ALL = 32_768
#: Rounds of reweighted least squares.
_ROUNDS = 30
#: What targets may span: squares of errors, and sums of them, must be numbers.
_LEAST_SPAN, _MOST_SPAN = 1e-140, 1e140


def check_span(y: Vector) -> None:
    """Refuse targets so far apart, or so near, that squares of errors overflow or vanish."""
    with np.errstate(over="ignore"):
        span = float(y.max() - y.min())
    if span and not _LEAST_SPAN <= span <= _MOST_SPAN:
        raise ValueError(
            f"y must span between {_LEAST_SPAN:g} and {_MOST_SPAN:g}, got values from {y.min():g} "
            f"to {y.max():g}: squares of errors overflow or vanish. Give y in another unit."
        )


def half_sample_mode(values: Vector) -> float:
    """Return the half-sample mode: halve the sample to its densest half until two are left."""
    x = np.sort(values)
    while len(x) > 2:
        half = (len(x) + 1) // 2
        widths = x[half - 1 :] - x[: len(x) - half + 1]
        first = int(np.argmin(widths))
        x = x[first : first + half]
        if x[-1] == x[0]:
            break
        if len(x) == 3:
            x = x[:2] if x[1] - x[0] <= x[2] - x[1] else x[1:]
    return float(x.mean())


def locate(errors: Vector, rule: str) -> float:
    """Return the location of errors: their median, mean or mode."""
    if rule == "median":
        return float(np.median(errors))
    if rule == "mean":
        return float(np.mean(errors))
    if rule == "mode":
        return half_sample_mode(errors)
    raise ValueError(f"intercept must be one of {INTERCEPTS}, got {rule!r}.")


def pair_quartile(errors: Vector, rng: np.random.Generator) -> float:
    """Return a robust scale: 2.2219 times the lower quartile of |e - e'| over pairs.

    This is the estimator of Rousseeuw and Croux (1993) with its factor for normal errors. Half of
    the errors may be arbitrary. Errors around two or three separate values give the spread around
    each of them, not the distance between them, because a quarter of the pairs have both members
    near the same value. More than 256 errors give about 16,384 pairs: each error, in random order
    on a ring, with the next ones. Such pairs say more than pairs that are drawn one by one.
    """
    n = len(errors)
    if n * (n - 1) // 2 <= _ALL:
        left, right = np.triu_indices(n, 1)
        return 2.2219 * _quantile(np.abs(errors[left] - errors[right]), 0.25)
    some = rng.permutation(errors) if n <= _PAIRS else errors[rng.integers(0, n, _PAIRS)]
    ring = np.concatenate([some, some[: _PAIRS // len(some)]])
    partners = np.lib.stride_tricks.sliding_window_view(ring[1:], len(some))
    return 2.2219 * _quantile(np.abs(partners - some).ravel(), 0.25)


def _quantile(values: Vector, share: float) -> float:
    """Return the same quantile as `numpy.quantile`, faster."""
    place = share * (len(values) - 1)
    first = int(place)
    after = min(first + 1, len(values) - 1)
    values = np.partition(values, (first, after))
    return float(values[first] + (place - first) * (values[after] - values[first]))


def check_start(init: Any, d: int) -> Vector:
    """Return given coefficients as d finite numbers."""
    w = np.asarray(init, dtype=np.float64)
    if w.shape != (d,):
        raise ValueError(f"init must have shape ({d},), got {w.shape}.")
    if not np.isfinite(w).all():
        raise ValueError("init contains NaN or infinity; pass finite coefficients.")
    return w


def start_from(rows: Rows, y: Vector, init: Any, example_weight: Vector = NO_WEIGHTS) -> Vector:
    """Return coefficients to start from, without an intercept.

    `init` is "zero", "least_squares", "huber" (reweighted least squares with Huber's weights at
    1.345 times the normalised median absolute deviation), or coefficients of shape (d,). The
    weights are not all zero; an empty array means equal weights.
    """
    d = rows.shape[1]
    if not isinstance(init, str):
        return check_start(init, d)
    if init == "zero":
        return np.zeros(d)
    if init not in ("least_squares", "huber"):
        raise ValueError(
            f'init must be "auto", "zero", "least_squares", "huber" or coefficients, got {init!r}.'
        )
    given = example_weight if len(example_weight) else np.ones(len(y))
    typical = representatives(example_weight)
    w = _least_squares(rows, y, given)
    if init == "huber":
        for _ in range(_ROUNDS):
            errors = y - rows.scores(w)
            errors = errors - _quantile(errors[typical], 0.5)
            scale = 1.4826 * _quantile(np.abs(errors[typical]), 0.5)
            if scale == 0.0:
                break
            weight = 1.0 / np.maximum(1.0, np.abs(errors) / (1.345 * scale))
            before, w = w, _least_squares(rows, y, given * weight, rough=True)
            if np.linalg.norm(w - before) <= 1e-6 * np.linalg.norm(w):
                break
    return w


def _least_squares(rows: Rows, y: Vector, weight: Vector, *, rough: bool = False) -> Vector:
    """Return the least-squares coefficients of least norm, without the intercept.

    Rough coefficients come from the normal equations, unless rows are wide. They have half of the
    digits at a fraction of the cost.
    """
    share = weight / weight.sum()
    root = np.sqrt(weight)
    target = root * (y - float(share @ y))
    if isinstance(rows, DenseRows):
        X = rows.X.astype(np.float64, copy=False)
        centred = root[:, None] * (X - share @ X)
        if rough and X.shape[1] < X.shape[0]:
            target, centred = centred.T @ target, centred.T @ centred
        return np.asarray(np.linalg.lstsq(centred, target, rcond=None)[0])
    return _least_squares_csr(rows, target, share, root)


def _least_squares_csr(rows: CsrRows, target: Vector, share: Vector, root: Vector) -> Vector:
    from scipy.sparse.linalg import LinearOperator, lsqr

    X = rows.matrix
    mean = np.asarray(share @ X)
    centred = LinearOperator(
        rows.shape,
        matvec=lambda w: root * (X @ w.ravel() - float(mean @ w.ravel())),
        rmatvec=lambda e: X.T @ (root * e.ravel()) - mean * float(root @ e.ravel()),
        dtype=np.float64,
    )
    return np.asarray(lsqr(centred, target, atol=1e-8, btol=1e-8, iter_lim=200)[0])
