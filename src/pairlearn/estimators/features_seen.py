# SPDX-License-Identifier: BSD-3-Clause
"""Examples as scikit-learn checks them, and the features that it has noted of a first chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.examples import validate_data
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.validation import check_count

__all__ = ["rows_and_targets", "see_features", "seen_features"]


def rows_and_targets(
    model: Any, X: Any, y: ArrayLike, *, reset: bool, minimum: int
) -> tuple[Rows, NDArray[np.float64]]:
    """Return at least `minimum` examples and their numeric targets, checked by scikit-learn."""
    kinds: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
    X, y = validate_data(
        model, X, y, **kinds, order="C", reset=reset, ensure_min_samples=minimum, y_numeric=True
    )
    return as_rows(X, finite=True), np.asarray(y, dtype=np.float64)


def seen_features(model: Any) -> dict[str, Any]:
    """Return number and names of the features of an estimator as plain values."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
    }


def see_features(model: Any, state: Mapping[str, Any]) -> None:
    """Note the features that `seen_features` returned."""
    model.n_features_in_ = check_count("n_features", state["n_features"])
    names = state["feature_names"]
    if names is not None:
        if (
            not isinstance(names, list)
            or len(names) != model.n_features_in_
            or not all(isinstance(name, str) for name in names)
        ):
            raise ValueError(
                f"the saved feature names are not one text for each of {model.n_features_in_} "
                "features."
            )
        model.feature_names_in_ = np.array(names, dtype=object)
