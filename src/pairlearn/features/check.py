# SPDX-License-Identifier: BSD-3-Clause
"""Check a feature map before training: each row by itself, bounds, and copies."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.features.base import FeatureMap, as_block
from pairlearn.features.restore import restored_map


@dataclass(frozen=True)
class FeatureCheck:
    """The findings of `check_features` for a map that passed."""

    #: Features of a row before and after.
    n_inputs: int
    n_outputs: int
    #: The largest norm of a mapped row that was seen, and the bound of the map.
    largest_norm: float
    norm_bound: float


def check_features(
    features: FeatureMap, X: ArrayLike | None = None, *, seed: int = 0
) -> FeatureCheck:
    """Check a feature map by mapping examples.

    A fitted map must return finite rows, C-contiguous and of the requested type. The rows must be
    the same bit for bit in one block, in small blocks, in another order, after pickling, and after
    `state` and `from_state`, and the same up to rounding in a sparse matrix. The map must not
    change X, and must keep its bounds even for examples near 0 and far away.

    Parameters
    ----------
    features : FeatureMap
        The map, fitted or not.
    X : array-like of shape (n, d), optional
        Examples; 150 rows of four features by default.
    seed : int, default=0
        Seed of the default examples and of the fit.

    Returns
    -------
    FeatureCheck
        The findings.

    Raises
    ------
    ValueError
        If the map fails; the message names the fault.

    Examples
    --------
    >>> from pairlearn import Hats
    >>> from pairlearn.features import check_features
    >>> check_features(Hats(n_knots=3)).n_outputs
    8
    """
    import scipy.sparse

    if not isinstance(features, FeatureMap):
        raise TypeError(
            f"check_features needs a FeatureMap (an instance, not a class), got {features!r}."
        )
    rng = np.random.default_rng(seed)
    if X is None:
        X = rng.normal(size=(150, features.n_inputs or 4))
    block = np.array(as_block(X), dtype=np.float64)
    name = type(features).__name__
    fitted = features if features.is_fitted else features.fit(block, rng=seed)
    if not fitted.is_fitted or fitted.n_outputs < 1:
        raise ValueError(f"{name}.fit must return a fitted map of one feature or more.")
    kept = block.copy()
    whole = fitted.transform(block)
    if not np.array_equal(kept, block):
        raise ValueError(f"{name} changes X; make a copy before writing.")
    _check_block(name, whole, (len(block), fitted.n_outputs), np.float64)
    _check_block(name, fitted.transform(block, dtype=np.float32), whole.shape, np.float32)
    order = rng.permutation(len(block))
    for size in (1, 7, 100):
        parts = [fitted.transform(block[order[k : k + size]]) for k in range(0, len(block), size)]
        if not np.array_equal(np.concatenate(parts), whole[order]):
            raise ValueError(
                f"{name} maps a row differently in blocks of {size} rows: a row must be mapped by "
                "itself. Learn from data in learn(X, rng), not in mapped(X)."
            )
    sparse = fitted.transform(scipy.sparse.csr_array(block))
    if not np.allclose(sparse, whole, rtol=1e-6, atol=1e-8):
        raise ValueError(f"{name} maps sparse rows differently from dense ones.")
    again = {"state and from_state": restored_map(fitted.state(), known=[type(fitted)])}
    if getattr(sys.modules.get(type(fitted).__module__), type(fitted).__qualname__, None) is type(
        fitted
    ):
        # A class of an interactive session may have a name that pickle cannot find.
        again["pickling"] = pickle.loads(pickle.dumps(fitted))
    for what, other in again.items():
        if not np.array_equal(other.transform(block), whole):
            raise ValueError(f"{name} maps differently after {what}.")
    bounds = fitted.bounds()
    far = whole
    if bounds.is_finite:
        scales = (1e-3, 0.1, 3.0, 10.0, 100.0, 1e3)
        far = np.concatenate([whole, *(fitted.transform(block * scale) for scale in scales)])
    norm = float(np.sqrt((far**2).sum(axis=1)).max())
    if norm > bounds.norm * (1.0 + 1e-9):
        raise ValueError(f"{name}.bounds() promises the norm {bounds.norm:g}, found {norm:g}.")
    if far.min() < bounds.lower - 1e-9 or far.max() > bounds.upper + 1e-9:
        raise ValueError(
            f"{name}.bounds() promises numbers from {bounds.lower:g} to {bounds.upper:g}, found "
            f"{far.min():g} to {far.max():g}."
        )
    return FeatureCheck(fitted.n_inputs, fitted.n_outputs, norm, bounds.norm)


def _check_block(name: str, found: Any, shape: tuple[int, int], dtype: Any) -> None:
    if found.shape != shape or found.dtype != dtype or not found.flags.c_contiguous:
        raise ValueError(
            f"{name}.transform must return {np.dtype(dtype)} of shape {shape}, C-contiguous, got "
            f"{found.dtype} of shape {found.shape}."
        )
    if not np.isfinite(found).all():
        raise ValueError(f"{name}.transform returned NaN or infinity for finite examples.")
