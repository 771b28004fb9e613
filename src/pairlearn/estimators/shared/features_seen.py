# SPDX-License-Identifier: BSD-3-Clause
"""Checked examples as rows, and the number and names of the features of an estimator."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import validation

from pairlearn.estimators.shared.examples import forget_worth, is_plain, validate_data
from pairlearn.features import FeatureMap
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.typing import Labels, Vector
from pairlearn.validation import check_count, check_labels

#: Usual types of targets, which float64 can hold.
_NUMBERS = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.int32))
#: The rows that estimators take, for scikit-learn.
_KINDS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


def rows_and_labels(
    model: Any, X: Any, y: Any, *, reset: bool, minimum: int, finite: bool | None = False
) -> tuple[Rows, Labels]:
    """Return at least `minimum` examples and their labels, checked by scikit-learn.

    `finite` says whether X is known to be finite; if it is None, the caller looks for NaN itself.
    """
    if reset and getattr(model, "warm_start", False) and hasattr(model, "coef_"):
        check_columns(model, X)  # its coefficients go on
    if is_plain(model, X, y, reset=reset, minimum=minimum, dtype=None):
        rows = as_rows(X, finite=finite)
        model.n_features_in_ = X.shape[1]
        forget_worth(model)
        return rows, y
    X, y = validate_data(
        model, X, y, **_KINDS, reset=reset, ensure_min_samples=minimum,
        ensure_all_finite=finite is not None,
    )  # fmt: skip
    return as_rows(X, finite=None if finite is None else True), np.asarray(y)


def rows_and_targets(
    model: Any, X: Any, y: ArrayLike, *, reset: bool, minimum: int
) -> tuple[Rows, Vector]:
    """Return at least `minimum` examples and their numeric targets, checked by scikit-learn."""
    if is_plain(model, X, y, reset=reset, minimum=minimum) and y.dtype in _NUMBERS:  # type: ignore[union-attr]
        # Values that are not finite are refused below, by scikit-learn's message.
        with contextlib.suppress(ValueError):
            rows = as_rows(X)
            model.n_features_in_ = rows.shape[1]
            forget_worth(model)
            return rows, np.ascontiguousarray(y, dtype=np.float64)
    X, y = validate_data(
        model, X, y, **_KINDS, reset=reset, ensure_min_samples=minimum, y_numeric=True
    )
    rows = as_rows(X, finite=True)
    return rows, check_labels(y, rows.shape[0])


def column_names(X: Any) -> NDArray[Any] | None:
    """Return the names of columns as scikit-learn records them, without reading any cell.

    >>> import pandas as pd
    >>> column_names(pd.DataFrame({"age": [1], "income": [2]}))
    array(['age', 'income'], dtype=object)
    >>> column_names([[1, 2]])
    """
    noting = BaseEstimator()
    check_columns(noting, X, reset=True)
    return getattr(noting, "feature_names_in_", None)


def check_columns(model: Any, X: Any, *, reset: bool = False) -> None:
    """Refuse named columns that differ from those of `fit`, without reading any cell."""
    validation.validate_data(model, X, reset=reset, skip_check_array=True, ensure_2d=False)


def see_columns(model: Any, names: Any) -> None:
    """Set the names of the columns of an estimator, as `column_names` returned them."""
    vars(model).pop("feature_names_in_", None)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def seen_features(model: Any) -> dict[str, Any]:
    """Return the number and names of the features of an estimator, and the hash of a fitted map."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
        "map_hash": _map_hash(model),
    }


def see_features(model: Any, state: Mapping[str, Any]) -> None:
    """Set the features of an estimator, as `seen_features` returned them; refuse another map."""
    saved, given = state.get("map_hash"), _map_hash(model)
    if saved is not None and given is not None and saved != given:
        raise ValueError(
            f"the saved stream was learned with another map than features={model.features!r:.200}, "
            "or one of other rows; restore it with the map that it began with."
        )
    model.n_features_in_ = check_count("n_features", state["n_features"])
    names = restored_columns(state, model.n_features_in_)
    if names is not None:
        see_columns(model, names)


def _map_hash(model: Any) -> str | None:
    """Return the hash of a given map that is fitted, the same in every process."""
    features = getattr(model, "features", None)
    if not isinstance(features, FeatureMap) or not features.is_fitted:
        return None
    found = sha256()
    _add(found, features.state())
    return found.hexdigest()


def _add(found: Any, value: Any) -> None:
    """Add plain values and arrays to a hash, and the types of other objects."""
    if isinstance(value, Mapping):
        for name in sorted(value, key=str):
            found.update(str(name).encode())
            _add(found, value[name])
    elif isinstance(value, list | tuple):
        for one in value:
            _add(found, one)
    elif isinstance(value, np.ndarray):
        found.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    else:
        plain = value is None or isinstance(value, bool | int | float | str)
        found.update((str(value) if plain else type(value).__name__).encode())


def restored_columns(state: Mapping[str, Any], n_features: int) -> list[str] | None:
    """Return the names of columns in a restored state, checked: a file may hold anything."""
    names = state.get("feature_names")
    if names is None:
        return None
    if (
        not isinstance(names, list)
        or len(names) != n_features
        or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError(
            f"the saved feature names are not one text for each of {n_features} features."
        )
    return names
