# SPDX-License-Identifier: BSD-3-Clause
"""Examples on their way into an estimator: scikit-learn's checks, behind a look at sparse arrays.

scikit-learn converts sparse containers and multiplies by them as they are; arrays that point
outside would be followed there, before our own door.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils import validation

from pairlearn.solvers.rows import check_sparse, is_sparse

__all__ = ["validate_data"]


def validate_data(model: Any, X: Any, *y: Any, **rules: Any) -> Any:
    """Return what scikit-learn's function of this name does; refuse damaged sparse arrays."""
    # Examples with labels become rows afterwards, which are looked at there.
    if is_sparse(X) and not (y and getattr(X, "format", None) == "csr"):
        check_sparse(X)
    return validation.validate_data(model, X, *y, **rules)
