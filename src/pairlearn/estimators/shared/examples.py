# SPDX-License-Identifier: BSD-3-Clause
"""Checks of examples and labels: those of scikit-learn, and some that it lacks.

scikit-learn follows the indices of a sparse matrix before it checks them, ignores the mask of a
masked array, and reports text and mixed labels by Python's own error. These are checked first.
Products with coefficients that are too large for a float64 are refused, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.features import Identity
from pairlearn.solvers.closed_form.mapped_moments import score_mapped
from pairlearn.solvers.rows import Rows, as_rows, check_sparse, is_sparse
from pairlearn.typing import Labels, Vector
from pairlearn.validation import check_names, check_weights, refuse_masked, refuse_times

#: The estimator for Dask collections that corresponds to an estimator.
_ON_A_CLUSTER = ("AUCClassifier", "MulticlassAUCClassifier", "PairwiseRanker", "MetricLearner")


#: Types of features that need no conversion.
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


#: What a file says about the origin of a model.
_ORIGIN = "provenance_"
#: What is true of the examples that a model had seen, and of no more.
_WORTH = ("model", "data_fingerprint")


def forget_origin(model: Any) -> None:
    """Forget what a file said about the origin of a model, which is fitted anew.

    Otherwise the next file would hold the columns and the held-out AUC of other data.
    """
    vars(model).pop(_ORIGIN, None)


def forget_worth(model: Any) -> None:
    """Forget what a file said a model was worth, and on which examples, for it learns more.

    Its columns are still those of the file.
    """
    known = vars(model).get(_ORIGIN)
    if known:
        kept = {name: value for name, value in known.items() if name not in _WORTH}
        vars(model)[_ORIGIN] = kept


def is_plain(model: Any, X: Any, y: Any, *, reset: bool, minimum: int, dtype: Any = None) -> bool:
    """Tell whether examples need no conversion by scikit-learn, which is slow for small chunks.

    True for arrays of at least `minimum` rows of floats (of `dtype`, if it is given), with finite
    labels and as many columns as the model has seen; with `reset`, any number of columns. NaN in X
    is not looked for.
    """
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.ndim == 2
        and X.size > 0
        and y.shape == X.shape[:1]
        and len(X) >= minimum
        and X.dtype in _FLOATS
        and (dtype is None or X.dtype == dtype)
        and y.dtype.kind in "iufUS"
        and (y.dtype.kind != "f" or np.count_nonzero(np.isfinite(y)) == len(y))
        and "feature_names_in_" not in vars(model)
        and not (reset and _ORIGIN in vars(model))
        and (reset or X.shape[1] == vars(model)["n_features_in_"])
    )


def refuse_collections(model: Any, *values: Any) -> None:
    """Refuse Dask collections: NumPy would silently gather them on this machine."""
    for value in values:
        graph = getattr(value, "__dask_graph__", None)
        if callable(graph) and not isinstance(value, type) and graph() is not None:
            name = type(model).__name__
            there = name in _ON_A_CLUSTER
            use = "use pairlearn.cluster.fit_on, which learns where they are, or " * there
            raise TypeError(
                f"{name} works in the memory of one machine, got a Dask collection "
                f"({type(value).__name__}); {use}gather the examples yourself with .compute()."
            )


def validate_data(model: Any, X: Any, *y: Any, **rules: Any) -> Any:
    """Call scikit-learn's function of the same name, after checks that it lacks."""
    refuse_collections(model, X, *y)
    refuse_masked("X", X)
    for labels in y:
        check_names("y", labels, "label")
    for name, values in zip("Xy", (X, *y), strict=False):
        if getattr(getattr(values, "dtype", None), "kind", "") == "c":
            # The tests of scikit-learn look for these words; its own message prints the values.
            raise ValueError(
                f"Complex data not supported: {name} is {values.dtype}; give real and imaginary "
                "parts as numbers of their own."
            )
    # Examples with labels become rows afterwards, and are checked there.
    if is_sparse(X) and not (y and getattr(X, "format", None) == "csr"):
        check_sparse(X)
    if is_sparse(X) and not rules.get("accept_sparse"):
        raise TypeError(
            f"{type(model).__name__} takes dense examples, got a sparse matrix of shape {X.shape}; "
            "pass X.toarray(), or reduce the dimension first (scikit-learn's TruncatedSVD)."
        )
    kinds = getattr(X, "dtypes", None) if hasattr(X, "columns") else None
    if kinds is None and not is_sparse(X):
        refuse_times("X", np.asarray(X[:1] if isinstance(X, list) else X).dtype)
    # Here, so that workers of a cluster, which only look at labels, load no scikit-learn.
    from sklearn.utils import validation

    try:
        if kinds is not None and any(map(_is_time, kinds)):
            raise ValueError("NumPy would count the units of times, and of missing ones.")
        # scikit-learn looks for infinity by a sum, which may overflow for huge finite values.
        with np.errstate(over="ignore", invalid="ignore"):
            found = validation.validate_data(model, X, *y, **rules)
        if rules.get("reset", True):
            forget_origin(model)
        elif y:
            forget_worth(model)
        return found
    except (TypeError, ValueError) as error:
        named = _not_numbers(X)
        if named is None:
            raise
        raise ValueError(
            f"X must hold numbers, but {named}; put pairlearn.TableEncoder() before the model, as "
            "in make_pipeline(TableEncoder(), model), or leave it out."
        ) from error


def _is_time(dtype: Any) -> bool:
    """Whether a column of this type, of pandas or polars, holds dates or durations."""
    temporal = getattr(dtype, "is_temporal", None)
    return bool(temporal()) if callable(temporal) else getattr(dtype, "kind", "") in ("m", "M")


def _not_numbers(X: Any) -> str | None:
    """Name a column of a table that does not hold numbers; return None if there is none."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns") or not len(X):
        return None
    for k, (name, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        if getattr(kind, "kind", "O") in "biuf":
            continue
        column = X.iloc[:, k] if hasattr(X, "iloc") else X[name].to_numpy()
        first = column.iloc[0] if hasattr(X, "iloc") else X[name][0]
        try:
            if _is_time(kind):
                raise TypeError
            column.astype(np.float64)
        except (TypeError, ValueError):
            return f"column {name!r} is of the type {kind}, as in {first!r}"
    return None


def product(X: Any, coef: Vector) -> Vector:
    """Return ``X @ coef`` for checked examples; refuse a score that is too large for float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return refuse_overflow(np.asarray(X @ coef, dtype=np.float64), coef)


def mapped_product(features: Any, X: Any, coef: Vector) -> Vector:
    """Return the product of mapped examples with coefficients, see `product`."""
    if features is None or isinstance(features, Identity):
        return product(X, coef)
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
    if labels.dtype.kind in "iuf" and len(labels):
        # Two numbers are found without sorting all of them.
        same = labels == labels[0]
        other = labels[np.argmin(same)]
        if np.count_nonzero(same) + np.count_nonzero(labels == other) == len(labels):
            return np.sort(np.array([labels[0], other]))
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


#: The most classes whose pairs are learned: 1225 pairs.
_MOST_CLASSES = 50
#: With more classes than this, a class needs `_FEWEST_OF_A_CLASS` examples on average.
_SOME_CLASSES = 20
_FEWEST_OF_A_CLASS = 5


def check_many_classes(classes: NDArray[Any], n_examples: int | None = None) -> None:
    """Refuse labels that are most likely numbers to predict, and not names of classes.

    Each pair of classes has a score of its own, so that the cost is that of the pairs. A target of
    a regression has hundreds of values, and tens of thousands of pairs.
    """
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
    if before is not None and (classes is None or _are(classes, before)):
        return before
    known = _distinct(classes)
    if len(known) < 2:
        raise ValueError(f"classes must hold two labels, got {known.tolist()}.")
    if before is not None and not np.array_equal(known, before):
        raise ValueError(
            f"classes={known.tolist()} differ from those of the model, {before.tolist()}; "
            "leave classes out, or start a new model."
        )
    return known


def check_known(labels: NDArray[Any], known: NDArray[Any]) -> None:
    """Refuse labels that are not among those of the stream."""
    unknown = np.setdiff1d(labels, known)
    if len(unknown):
        raise ValueError(
            f"y contains {unknown.tolist()}, which is not in classes={known.tolist()}; "
            "leave these examples out, or name all labels in the first call."
        )


def _distinct(classes: Any) -> NDArray[Any]:
    """Return different labels in their order."""
    labels = np.asarray(classes)
    if labels.shape == (2,) and labels.dtype.kind in "iufU" and labels[0] < labels[1]:
        return labels.copy()  # the usual case, faster than np.unique
    return np.unique(labels)


def _are(classes: Any, known: NDArray[Any]) -> bool:
    """Tell whether classes are the known ones in their order."""
    if type(classes) is list:
        # Streams pass their classes with every chunk: a list is faster to compare than an array.
        return bool(classes == known.tolist())
    return np.array_equal(classes, known)
