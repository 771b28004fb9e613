# SPDX-License-Identifier: BSD-3-Clause
"""Examples and labels as estimators take them: checked by scikit-learn, and where it is silent.

scikit-learn follows the indices of a sparse matrix before it checks them, ignores the mask of a
masked array and the unit of times, and gathers Dask collections. These are checked first. Products
with coefficients that are too large for a float64 are refused, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.features import FeatureMap, Identity
from pairlearn.solvers.rows import DenseRows, Rows, as_rows, check_sparse, is_sparse
from pairlearn.typing import Labels, Vector
from pairlearn.validation import (
    check_labels,
    check_names,
    check_weights,
    refuse_masked,
    refuse_times,
)

#: The rows that estimators take, for scikit-learn.
_KINDS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}
#: The most classes whose pairs are learned: 1225 pairs.
_MOST_CLASSES = 50
#: With more classes than this, a class needs `_FEWEST_OF_A_CLASS` examples on average.
_SOME_CLASSES = 20
_FEWEST_OF_A_CLASS = 5


def forget_origin(model: Any) -> None:
    """Forget what a file said about the origin of a model, which is fitted anew."""
    vars(model).pop("provenance_", None)


def forget_worth(model: Any) -> None:
    """Forget what a file said a model was worth, and on which examples, for it learns more."""
    known = vars(model).get("provenance_")
    if known:
        worth = ("model", "data_fingerprint")
        model.provenance_ = {name: value for name, value in known.items() if name not in worth}


def validate_data(model: Any, X: Any, *y: Any, **rules: Any) -> Any:
    """Call scikit-learn's function of the same name, after checks that it lacks."""
    from sklearn.utils import validation

    for values in (X, *y):
        graph = getattr(values, "__dask_graph__", None)
        if callable(graph) and not isinstance(values, type) and graph() is not None:
            raise TypeError(
                f"{type(model).__name__} works in the memory of one machine, got a Dask collection "
                f"({type(values).__name__}); use pairlearn.cluster.fit_on, which learns where the "
                "examples are, or gather them yourself with .compute()."
            )
    refuse_masked("X", X)
    for labels in y:
        check_names("y", labels, "label")
    # Examples with labels become rows afterwards, and are checked there.
    if is_sparse(X) and not (y and getattr(X, "format", None) == "csr"):
        check_sparse(X)
    is_table = hasattr(X, "dtypes") and hasattr(X, "columns")
    if not is_table and not is_sparse(X):
        refuse_times("X", np.asarray(X[:1] if isinstance(X, list) else X).dtype)
    try:
        if is_table and any(map(_is_time, X.dtypes)):
            raise ValueError("NumPy would count the units of times, and of missing ones.")
        # scikit-learn looks for infinity by a sum, which may overflow for huge finite values.
        with np.errstate(over="ignore", invalid="ignore"):
            found = validation.validate_data(model, X, *y, **rules)
    except (TypeError, ValueError) as error:
        named = _not_numbers(X) if is_table else None
        if named is None:
            raise
        raise ValueError(
            f"X must hold numbers, but {named}; put pairlearn.TableEncoder() before the model, as "
            "in make_pipeline(TableEncoder(), model), or leave it out."
        ) from error
    if rules.get("reset", True):
        forget_origin(model)
    elif y:
        forget_worth(model)
    return found


def _is_time(dtype: Any) -> bool:
    """Whether a column of this type, of pandas or polars, holds dates or durations."""
    temporal = getattr(dtype, "is_temporal", None)
    return bool(temporal()) if callable(temporal) else getattr(dtype, "kind", "") in ("m", "M")


def _not_numbers(X: Any) -> str | None:
    """Name a column of a table that does not hold numbers; return None if there is none."""
    for k, (name, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        column = X.iloc[:, k].to_numpy() if hasattr(X, "iloc") else X[name].to_numpy()
        try:
            if _is_time(kind):
                raise TypeError
            column.astype(np.float64)
        except (TypeError, ValueError):
            first = X.iloc[0, k] if hasattr(X, "iloc") else X[name][0]
            return f"column {name!r} is of the type {kind}, as in {first!r}"
    return None


def rows_and_labels(
    model: Any, X: Any, y: Any, *, reset: bool, minimum: int, finite: bool | None = False
) -> tuple[Rows, Labels]:
    """Return at least `minimum` examples and their labels, checked by scikit-learn.

    If `finite` is None, the caller looks for NaN itself.
    """
    if reset and getattr(model, "warm_start", False) and hasattr(model, "coef_"):
        check_columns(model, X)  # its coefficients go on
    looks = finite is not None
    X, y = validate_data(
        model, X, y, **_KINDS, reset=reset, ensure_min_samples=minimum, ensure_all_finite=looks
    )
    return as_rows(X, finite=True if looks else None), np.asarray(y)


def rows_and_targets(
    model: Any, X: Any, y: ArrayLike, *, reset: bool, minimum: int
) -> tuple[Rows, Vector]:
    """Return at least `minimum` examples and their numeric targets, checked by scikit-learn."""
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
    from sklearn.base import BaseEstimator

    noting = BaseEstimator()
    check_columns(noting, X, reset=True)
    return getattr(noting, "feature_names_in_", None)


def check_columns(model: Any, X: Any, *, reset: bool = False) -> None:
    """Refuse named columns that differ from those of `fit`, without reading any cell."""
    from sklearn.utils import validation

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
    model.n_features_in_ = int(state["n_features"])
    if state["feature_names"] is not None:
        see_columns(model, state["feature_names"])


def _map_hash(model: Any) -> str | None:
    """Return the hash of a given map that is fitted, the same in every process."""
    import joblib

    features = getattr(model, "features", None)
    if not isinstance(features, FeatureMap) or not features.is_fitted:
        return None
    return str(joblib.hash(features.state()))


def product(X: Any, coef: Vector) -> Vector:
    """Return ``X @ coef`` for checked examples; refuse a score that is too large for float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return refuse_overflow(np.asarray(X @ coef, dtype=np.float64), coef)


def mapped_product(features: Any, X: Any, coef: Vector) -> Vector:
    """Return the product of mapped examples with coefficients, see `product`."""
    if features is None or isinstance(features, Identity):
        return product(X, coef)
    from pairlearn.solvers.closed_form.mapped_moments import score_mapped

    return refuse_overflow(score_mapped(features, as_rows(X, finite=True), coef), coef)


def refuse_overflow(found: Vector, coef: Vector) -> Vector:
    """Return the scores `found`; refuse infinite ones and NaN."""
    if not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ValueError(
            f"the score of row {row} is too large for a number: it meets coefficients of up to "
            f"{np.abs(coef).max():g}; leave the row out, or give the features in other units and "
            "fit again."
        )
    return found


def two_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the two labels, sorted; refuse any other number of them."""
    classes = find_classes(labels)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"y has {len(classes)} classes. Use AUCClassifier, or train one classifier per pair of "
            "classes (sklearn.multiclass.OneVsOneClassifier)."
        )
    return classes


def find_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the different labels, sorted; refuse fewer than two, and continuous targets."""
    classes = np.unique(labels)
    if len(classes) > 2:
        from sklearn.utils.multiclass import check_classification_targets

        check_classification_targets(labels)
    if len(classes) < 2:
        raise ValueError(
            f"AUC needs examples of both classes, but y has one class: {classes.tolist()}. "
            "Add examples of the other class."
        )
    return np.asarray(classes)


def check_many_classes(classes: NDArray[Any], n_examples: int | None = None) -> None:
    """Refuse labels that are most likely numbers to predict: each pair of classes has a score."""
    k = len(classes)
    rare = n_examples is not None and k > _SOME_CLASSES and n_examples < _FEWEST_OF_A_CLASS * k
    if k <= _MOST_CLASSES and not rare:
        return
    first = ", ".join(repr(label)[:40] for label in classes[:3].tolist())
    few = "" if n_examples is None else f" in {n_examples} examples"
    raise ValueError(
        f"y has {k} different labels{few} ({first}, ...), which makes {k * (k - 1) // 2} pairs of "
        f"classes; at most {_MOST_CLASSES} classes are learned, and more than {_SOME_CLASSES} only "
        f"with {_FEWEST_OF_A_CLASS} examples each on average. If y is a number to predict, use "
        "EntropyRegressor, or a regressor of scikit-learn; if it is a grade, OrdinalAUCClassifier; "
        "if it is a name, join rare classes, or use "
        "sklearn.multiclass.OneVsRestClassifier(AUCClassifier())."
    )


def known_classes(classes: Any, before: NDArray[Any] | None) -> NDArray[Any]:
    """Return the labels of a stream; refuse labels that differ from those of the model."""
    if before is not None and classes is None:
        return before
    known = np.unique(classes)
    if len(known) < 2:
        raise ValueError(f"classes must hold two labels, got {known.tolist()}.")
    if before is not None and not np.array_equal(known, before):
        raise ValueError(
            f"classes={known.tolist()} differ from those of the model, {before.tolist()}; "
            "leave classes out, or start a new model."
        )
    return known if before is None else before


def check_known(labels: NDArray[Any], known: NDArray[Any]) -> None:
    """Refuse labels that are not among those of the stream."""
    unknown = np.setdiff1d(labels, known)
    if len(unknown):
        raise ValueError(
            f"y contains {unknown.tolist()}, which is not in classes={known.tolist()}; "
            "leave these examples out, or name all labels in the first call."
        )


def with_weight(
    rows: Rows, labels: Labels, sample_weight: ArrayLike | None, n_classes: int
) -> tuple[Rows, Labels, ArrayLike | None]:
    """Return examples, labels and weights without the examples of weight zero.

    If one of the classes has no other examples, all stay: the caller refuses them.
    """
    if sample_weight is None:
        return rows, labels, None
    weight = check_weights(sample_weight, len(labels), name="sample_weight")
    kept = np.flatnonzero(weight)
    if len(kept) == len(labels) or len(np.unique(labels[kept])) < n_classes:
        return rows, labels, weight
    return rows.checked().take(kept), labels[kept], weight[kept]


def watch_order(
    model: Any, rows: Rows, y: Vector, scales: Any, *, qid: ArrayLike | None = None, cure: str = ""
) -> None:
    """Warn if the rows of a stream do not come in random order; see `OrderWatch`."""
    from pairlearn.solvers.streams.order import OrderWatch

    watch: OrderWatch = vars(model).setdefault("_order_watch", OrderWatch(cure))
    queries = None if qid is None else np.asarray(qid)
    watch.note(y, queries, scales=scales if isinstance(rows, DenseRows) else None)
