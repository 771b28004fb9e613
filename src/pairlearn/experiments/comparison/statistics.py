# SPDX-License-Identifier: BSD-3-Clause
"""Means, paired differences and their intervals over random re-splits of one data set.

Training parts of different splits share most of their examples, so the usual standard error
s / sqrt(J) is too small. The correction of Nadeau and Bengio (Machine Learning 52, 2003) replaces
1 / J by 1 / J + n_test / n_train. It is a good approximation, not a theorem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.register import EqualFields
from pairlearn.validation import check_count, check_fraction


@dataclass(frozen=True, eq=False)
class Interval(EqualFields):
    """A mean of n values, one for each split, with its corrected confidence interval.

    `p_value` tests that the mean is zero, by the same corrected t statistic. For a single value,
    `sd`, `low`, `high` and `p_value` are NaN.
    """

    mean: float
    sd: float
    low: float
    high: float
    p_value: float
    n: int


def resampled_mean(
    values: ArrayLike, *, n_train: int, n_test: int, confidence: float = 0.95
) -> Interval:
    """Return the mean of one value per split, with the corrected interval."""
    from scipy import stats

    check_count("n_train", n_train)
    check_count("n_test", n_test)
    check_fraction("confidence", confidence)
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"values must hold one number for each split, got shape {array.shape}.")
    n, mean = len(array), float(array.mean())
    if n == 1:
        return Interval(mean, math.nan, math.nan, math.nan, math.nan, 1)
    sd = float(array.std(ddof=1))
    error = sd * math.sqrt(1.0 / n + n_test / n_train)
    half = float(stats.t.ppf(0.5 + confidence / 2.0, n - 1)) * error
    p_value = 0.0 if mean else 1.0
    if error > 0:
        p_value = float(2.0 * stats.t.sf(abs(mean) / error, n - 1))
    return Interval(mean, sd, mean - half, mean + half, p_value, n)


def holm(p_values: ArrayLike) -> list[float]:
    """Return Holm's adjusted p-values, which keep the chance of any false positive at the level."""
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(len(p), math.nan)
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * p[order]))
    return [float(value) for value in adjusted]
