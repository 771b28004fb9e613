# SPDX-License-Identifier: BSD-3-Clause
"""Features whose scales differ by orders of magnitude: a warning, and a way to cope."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.rows import DenseRows, Rows

__all__ = ["uneven_scales"]

#: Ratio of standard deviations from which gradient descent hardly sees the small features.
_UNEVEN = 1e3


def uneven_scales(
    rows: Rows, rng: np.random.Generator, *, copes: bool
) -> NDArray[np.float64] | None:
    """Return the scale of each feature if they differ by more than 1000, with a warning.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        Examples; sparse ones are left alone.
    rng : numpy.random.Generator
        Chooses the 1000 rows that are looked at.
    copes : bool
        Whether the caller divides by the scales, which the warning then says.

    Returns
    -------
    ndarray of shape (d,) or None
        Standard deviations, 1 for a feature that does not vary.
    """
    if not isinstance(rows, DenseRows):
        return None
    n = rows.shape[0]
    part = rows.X if n <= 1000 else rows.X[rng.integers(0, n, 1000)]
    deviation = part.std(axis=0, dtype=np.float64)
    moving = deviation[deviation > 0]
    if len(moving) < 2 or moving.max() <= _UNEVEN * moving.min():
        return None
    what = (
        "step sizes follow the scale of each feature in this fit"
        if copes
        else "gradient descent hardly sees the small ones"
    )
    warnings.warn(
        f"The standard deviations of the features range from {moving.min():.2g} to "
        f"{moving.max():.2g}; {what}. Better scale the features yourself, for example with "
        "sklearn.preprocessing.StandardScaler.",
        UserWarning,
        stacklevel=3,
    )
    return np.where(deviation > 0, deviation, 1.0)
