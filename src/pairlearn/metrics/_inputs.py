# SPDX-License-Identifier: BSD-3-Clause
"""Checks of labels, scores and weights, shared by all metrics."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_names, check_weights, float_array


def check_scores(name: str, scores: ArrayLike, n: int | None = None) -> Vector:
    """Return `scores` as a finite float vector (of length `n`, if given)."""
    vector = float_array(name, scores, ordered=True)
    if vector.ndim != 1:
        raise ValueError(
            f"{name} must be a vector with one number for each example, got shape {vector.shape}."
        )
    if n is not None and len(vector) != n:
        raise ValueError(
            f"{name} holds {len(vector)} numbers for {n} labels; give one score for each label."
        )
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} contains NaN or infinity; every example needs a finite score.")
    return vector


def is_positive(y: ArrayLike) -> Mask:
    """Return a mask of the examples with the larger of exactly two labels."""
    labels = check_names("y", y, "label")
    if labels.ndim != 1:
        raise ValueError(f"y must be a vector of labels, got shape {labels.shape}.")
    classes = np.unique(labels)
    if len(classes) != 2:
        shown = ", ".join(map(str, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
        raise ValueError(
            f"y must hold exactly two classes, got {len(classes)} ({shown}); "
            "the AUC compares examples of one class with examples of the other."
        )
    return np.asarray(labels == classes[1])


def weighed_classes(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike
) -> tuple[Mask, Vector, Vector]:
    """Return the positives, the scores and the weights of the examples that weigh something.

    An example of weight zero is as good as absent, whatever its label. Weights are brought near 1
    by a power of two, which changes no bit of a ratio and lets their sums stay finite.
    """
    labels = check_names("y", y, "label")
    values = check_scores("scores", scores, len(labels))
    weight = check_weights(sample_weight, len(labels), name="sample_weight")
    kept = weight > 0.0
    if not kept.any():
        raise ValueError("sample_weight is 0 for every example; give some a positive weight.")
    if labels.ndim == 1 and len(np.unique(labels[kept])) < 2 <= len(np.unique(labels)):
        raise ValueError(
            "sample_weight is 0 for every example of one class; a comparison needs weight in both."
        )
    weight = np.ldexp(weight[kept], -int(np.frexp(weight.max())[1]))
    return is_positive(labels[kept]), values[kept], weight


def which_positive(y: ArrayLike, classes: ArrayLike) -> Mask:
    """Return a mask of the examples with the second of two labels; refuse labels that are neither.

    >>> which_positive(["no", "yes"], ["no", "yes"])
    array([False,  True])
    """
    labels, known = np.asarray(y), np.asarray(classes)
    positive = np.asarray(labels == known[1])
    unknown = ~positive & np.asarray(labels != known[0])
    if unknown.any():
        raise ValueError(f"y holds {labels[unknown].tolist()[0]!r}, neither of {known.tolist()}.")
    return positive
