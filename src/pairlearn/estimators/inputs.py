# SPDX-License-Identifier: BSD-3-Clause
"""Examples and labels as an AUC classifier takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["is_plain", "two_classes"]


def is_plain(X: Any, y: Any, model: Any) -> bool:
    """Tell an array that needs none of scikit-learn's conversions, which cost more than a chunk."""
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.ndim == 2
        and y.shape == (len(X),)
        and len(X) > 0
        and X.shape[1] == model.n_features_in_
        and X.dtype == (X.dtype if model.dtype is None else model.dtype)
        and X.dtype in (np.float64, np.float32)
        and y.dtype.kind in "iufUS"
        and not hasattr(model, "feature_names_in_")
    )


def two_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the two kinds of labels, sorted, or say why there are not two.

    Examples
    --------
    >>> two_classes(np.array([3, 1, 3]))
    array([1, 3])
    """
    if labels.dtype.kind in "iuf":
        # Two numbers are found without sorting all of them.
        low, high = labels.min(), labels.max()
        if low != high and ((labels == low) | (labels == high)).all():
            return np.array([low, high])
    classes = np.unique(labels)
    if len(classes) > 2:
        check_classification_targets(labels)
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"y has {len(classes)} classes. Train one classifier per pair of classes "
            "(sklearn.multiclass.OneVsOneClassifier)."
        )
    if len(classes) < 2:
        raise ValueError(
            f"AUC needs examples of both classes, but y has one class: {classes.tolist()}. "
            "Add examples of the other class."
        )
    return np.asarray(classes)
