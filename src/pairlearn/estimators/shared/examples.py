# SPDX-License-Identifier: BSD-3-Clause
"""Examples on their way into an estimator: scikit-learn's checks, behind a look of our own.

scikit-learn converts sparse containers and multiplies by them as they are; arrays that point
outside would be followed there, before our own door. It forgets which values of an array are
masked, and says of text and of labels without an order what Python says. On the way out, products
with coefficients that are too large for a float64 are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import validation
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.features import Identity
from pairlearn.solvers.closed_form.mapped_moments import score_mapped
from pairlearn.solvers.rows import as_rows, check_sparse, is_sparse
from pairlearn.typing import Vector

__all__ = [
    "check_known",
    "check_labels",
    "find_classes",
    "is_plain",
    "known_classes",
    "mapped_product",
    "product",
    "refuse_collections",
    "refuse_overflow",
    "two_classes",
    "validate_data",
]

#: What learns from a Dask collection where it is.
_ON_A_CLUSTER = {
    "AUCClassifier": "DaskAUCClassifier",
    "PairwiseRanker": "DaskPairwiseRanker",
    "MetricLearner": "DaskMetricLearner",
}


#: What is a number already.
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def is_plain(model: Any, X: Any, y: Any, *, reset: bool, minimum: int, dtype: Any = None) -> bool:
    """Tell examples that need none of scikit-learn's conversions, which cost more than a chunk.

    They are arrays of at least `minimum` rows, of floats of any kind or of `dtype`, with as many
    columns as the model has seen, or any number if that is `reset`, and with labels that are
    finite. Whether X is finite is not looked at.
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
        and (reset or X.shape[1] == vars(model)["n_features_in_"])
    )


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
    """Return what scikit-learn's function of this name does; refuse what it would not."""
    refuse_collections(model, X, *y)
    _refuse_masked("X", X)
    for labels in y:
        _refuse_masked("y", labels)
        check_labels(labels)
    for name, values in zip("Xy", (X, *y), strict=False):
        if getattr(getattr(values, "dtype", None), "kind", "") == "c":
            # The words that scikit-learn looks for; its own message holds the numbers.
            raise ValueError(
                f"Complex data not supported: {name} is {values.dtype}; give real and imaginary "
                "parts as numbers of their own."
            )
    # Examples with labels become rows afterwards, which are looked at there.
    if is_sparse(X) and not (y and getattr(X, "format", None) == "csr"):
        check_sparse(X)
    try:
        # It looks for infinity by a sum, which overflows where finite values are near the largest.
        with np.errstate(over="ignore", invalid="ignore"):
            return validation.validate_data(model, X, *y, **rules)
    except (TypeError, ValueError) as error:
        named = _not_numbers(X)
        if named is None:
            raise
        raise ValueError(
            f"X must hold numbers, but {named}; encode it (scikit-learn's OneHotEncoder or "
            "TargetEncoder) or leave it out. The program `pairlearn train` encodes tables itself."
        ) from error


def _refuse_masked(name: str, values: Any) -> None:
    """Refuse masked values: NumPy would hand on what lies below the mask."""
    masked: Any = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else ()
    n_masked = int(np.count_nonzero(masked))
    if n_masked:
        raise ValueError(
            f"{name} is a masked array with {n_masked} masked values; fill them "
            f"({name}.filled(...)) or leave these rows out."
        )


def check_labels(y: Any) -> None:
    """Refuse labels that are missing, or of kinds between which there is no order.

    >>> check_labels(np.array(["a", None], dtype=object))
    Traceback (most recent call last):
        ...
    ValueError: y has no label in row 1 (None); leave out the examples without one.
    >>> check_labels(np.array([1, "1"], dtype=object))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: y mixes labels of the types int and str; give all of them one type, such as...
    """
    # Arrays of other types hold one kind, and scikit-learn names their NaN.
    kind = str(getattr(y, "dtype", ""))
    if not isinstance(y, list | tuple) and kind not in ("object", "str", "string"):
        return
    labels = np.asarray(y, dtype=object)
    if labels.ndim != 1:
        return
    row = next((k for k, label in enumerate(labels) if _is_missing(label)), None)
    if row is not None:
        raise ValueError(
            f"y has no label in row {row} ({labels[row]!r}); leave out the examples without one."
        )
    kinds = {type(label) for label in labels}
    if 0 < sum(issubclass(kind, str) for kind in kinds) < len(kinds):
        names = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"y mixes labels of the types {names}; give all of them one type, such as "
            "y.astype(str)."
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN or what pandas writes for a missing one."""
    nan = isinstance(label, float | np.floating) and label != label
    return label is None or bool(nan) or type(label).__name__ in ("NAType", "NaTType")


def _not_numbers(X: Any) -> str | None:
    """Return which column of a table holds something else than numbers; None if all seem to."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns") or not len(X):
        return None
    for name, kind in zip(X.columns, X.dtypes, strict=True):
        if getattr(kind, "kind", "O") in "biuf":
            continue
        try:
            X[name].astype(np.float64)
        except (TypeError, ValueError):
            return f"column {name!r} is of the type {kind}, as in {X[name].iloc[0]!r}"
    return None


def product(X: Any, coef: Vector) -> Vector:
    """Return ``X @ coef`` for checked examples; refuse one that is too large for float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return refuse_overflow(np.asarray(X @ coef, dtype=np.float64), coef)


def mapped_product(features: Any, X: Any, coef: Vector) -> Vector:
    """Return what `product` does, for examples that a feature map maps first."""
    if features is None or isinstance(features, Identity):
        return product(X, coef)
    return refuse_overflow(score_mapped(features, as_rows(X, finite=True), coef), coef)


def refuse_overflow(found: Vector, coef: Vector) -> Vector:
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


def two_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the two kinds of labels, sorted, or say why there are not two.

    Examples
    --------
    >>> two_classes(np.array([3, 1, 3]))
    array([1, 3])
    """
    classes = find_classes(labels)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"y has {len(classes)} classes. Use AUCClassifier, or train one classifier per pair of "
            "classes (sklearn.multiclass.OneVsOneClassifier)."
        )
    return classes


def find_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the kinds of labels, sorted; refuse less than two of them, and no kinds at all.

    Examples
    --------
    >>> find_classes(np.array(["b", "a", "c"]))
    array(['a', 'b', 'c'], dtype='<U1')
    """
    if labels.dtype.kind in "iuf":
        # Two numbers are found without sorting all of them.
        low, high = labels.min(), labels.max()
        if low != high and ((labels == low) | (labels == high)).all():
            return np.array([low, high])
    classes = np.unique(labels)
    if len(classes) > 2:
        check_classification_targets(labels)
    if len(classes) < 2:
        raise ValueError(
            f"AUC needs examples of both classes, but y has one class: {classes.tolist()}. "
            "Add examples of the other class."
        )
    return np.asarray(classes)


def known_classes(classes: Any, before: NDArray[Any] | None) -> NDArray[Any]:
    """Return the labels of the stream, refusing others than those of the model."""
    if before is not None and (classes is None or _are(classes, before)):
        return before
    known = _distinct(classes)
    if len(known) < 2:
        raise ValueError(f"classes must hold two labels, got {known.tolist()}.")
    if before is not None and not np.array_equal(known, before):
        raise ValueError(
            f"classes={known.tolist()} differ from those of the model, {before.tolist()}."
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
    """Return different labels in their order.

    >>> _distinct(["b", "a", "b"]).tolist()
    ['a', 'b']
    """
    labels = np.asarray(classes)
    if labels.shape == (2,) and labels.dtype.kind in "iufU" and labels[0] < labels[1]:
        return labels.copy()  # as they come from most callers; NumPy would take long to see it
    return np.unique(labels)


def _are(classes: Any, known: NDArray[Any]) -> bool:
    """Tell whether classes are the known ones in their order."""
    if type(classes) is list:
        # A stream is told its classes with every chunk: no array is made of them each time.
        return bool(classes == known.tolist())
    return np.array_equal(classes, known)
