# SPDX-License-Identifier: BSD-3-Clause
"""Examples on their way into an estimator: scikit-learn's checks, behind a look at sparse arrays.

scikit-learn converts sparse containers and multiplies by them as they are; arrays that point
outside would be followed there, before our own door. On the way out, products with coefficients
that are too large for a float64 are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import validation

from pairlearn.solvers.rows import check_sparse, is_sparse

__all__ = ["product", "refuse_collections", "refuse_overflow", "validate_data"]

#: What learns from a Dask collection where it is.
_ON_A_CLUSTER = {
    "AUCClassifier": "DaskAUCClassifier",
    "PairwiseRanker": "DaskPairwiseRanker",
    "MetricLearner": "DaskMetricLearner",
}


def refuse_collections(model: Any, *values: Any) -> None:
    """Refuse Dask collections: NumPy would gather them on this machine without a word."""
    for value in values:
        graph = getattr(value, "__dask_graph__", None)
        if callable(graph) and not isinstance(value, type) and graph() is not None:
            name = type(model).__name__
            there = _ON_A_CLUSTER.get(name)
            use = f"use pairlearn.distributed.{there}, which learns where they are, or " * bool(
                there
            )
            raise TypeError(
                f"{name} works in the memory of one machine, got a Dask collection "
                f"({type(value).__name__}); {use}gather the examples yourself with .compute()."
            )


def validate_data(model: Any, X: Any, *y: Any, **rules: Any) -> Any:
    """Return what scikit-learn's function of this name does; refuse damaged sparse arrays."""
    refuse_collections(model, X, *y)
    # Examples with labels become rows afterwards, which are looked at there.
    if is_sparse(X) and not (y and getattr(X, "format", None) == "csr"):
        check_sparse(X)
    return validation.validate_data(model, X, *y, **rules)


def product(X: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``X @ coef`` for checked examples; refuse one that is too large for float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return refuse_overflow(np.asarray(X @ coef, dtype=np.float64), coef)


def refuse_overflow(found: NDArray[np.float64], coef: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what examples gave with coefficients; refuse infinity and what came of it.

    >>> refuse_overflow(np.array([1.0, np.inf]), np.ones(1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: the score of row 1 is too large for a number: it meets coefficients of up to ...
    """
    if not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ValueError(
            f"the score of row {row} is too large for a number: it meets coefficients of up to "
            f"{np.abs(coef).max():g}; leave the row out, or give the features in other units and "
            "fit again."
        )
    return found
