# SPDX-License-Identifier: BSD-3-Clause
"""Labels, scores, weights and groups: checked, as a sample, and as the corners of a ROC curve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import check_names, check_weights, float_array

#: What the order in which weights are added may change, relative to their sum.
ROUNDING = 1e-12


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


def check_label_vector(y: ArrayLike) -> NDArray[Any]:
    """Return labels as a vector."""
    labels = check_names("y", y, "label")
    if labels.ndim != 1:
        raise ValueError(f"y must be a vector of labels, got shape {labels.shape}.")
    return labels


def is_positive(y: ArrayLike) -> Mask:
    """Return a mask of the examples with the larger of exactly two labels."""
    labels = check_label_vector(y)
    classes = np.unique(labels)
    if len(classes) != 2:
        shown = ", ".join(map(str, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
        raise ValueError(
            f"y must hold exactly two classes, got {len(classes)} ({shown}); "
            "the AUC compares examples of one class with examples of the other, and an example of "
            "weight 0 is absent."
        )
    return np.asarray(labels == classes[1])


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


@dataclass(frozen=True)
class Sample:
    """Checked arguments, without examples of weight zero, which are as good as absent."""

    labels: NDArray[Any]
    scores: tuple[Vector, ...]
    #: At most 1: divided by a power of two, which changes no digit of a ratio.
    weight: Vector
    #: Codes of the groups, or None if every example is its own group.
    groups: NDArray[np.int64] | None

    @classmethod
    def of(
        cls,
        y: ArrayLike,
        scores: Mapping[str, ArrayLike],
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        check: Callable[[str, ArrayLike, int], Vector] = check_scores,
    ) -> Sample:
        """Return the sample of these arguments; `scores` are given by name."""
        labels = check_label_vector(y)
        n = len(labels)
        if not n:
            raise ValueError("y is empty; there is no example to measure.")
        checked = tuple(check(name, given, n) for name, given in scores.items())
        codes = None
        if groups is not None:
            names = check_names("groups", groups, "group")
            if names.shape != (n,):
                raise ValueError(
                    f"groups must hold one group for each of {n} examples, got shape {names.shape}."
                )
            codes = np.unique(names, return_inverse=True)[1].astype(np.int64)
        if sample_weight is None:
            return cls(labels, checked, np.ones(n), codes)
        weight = check_weights(sample_weight, n, name="sample_weight")
        kept = weight > 0.0
        if not kept.any():
            raise ValueError("sample_weight is 0 for every example; give some a positive weight.")
        if codes is not None:
            codes = np.unique(codes[kept], return_inverse=True)[1].astype(np.int64)
        weight = weight[kept]
        equal = np.ptp(weight) == 0.0
        weight = np.ones(len(weight)) if equal else np.ldexp(weight, -np.frexp(weight.max())[1])
        return cls(labels[kept], tuple(one[kept] for one in checked), weight, codes)

    @property
    def n_groups(self) -> int | None:
        """The number of groups, or None if every example is its own group."""
        return None if self.groups is None else int(self.groups.max()) + 1

    def n_draws(self, draws: Vector) -> tuple[float, float]:
        """Return bounds on the number of equal and independent examples with this total weight.

        The lower one is for equal examples in each group, the upper for independent ones.
        """
        total = float(draws.sum())
        most = total**2 / float(draws @ draws)
        if self.groups is None:
            return most, most
        sums = np.bincount(self.groups, draws)
        return total**2 / float(sums @ sums), most


@dataclass(frozen=True)
class Corners:
    """The weight accepted at each threshold, from 0 to the weight of the class.

    Examples of equal score form a step; step k leads from corner k to corner k + 1. `step` has the
    step of each example, 0 for the highest scores, and `thresholds` the score of each step.
    """

    step: Places
    thresholds: Vector
    accepted_positive: Vector
    accepted_negative: Vector

    @property
    def tpr(self) -> Vector:
        """The share of accepted positives at each corner."""
        return np.asarray(self.accepted_positive / self.accepted_positive[-1])

    @property
    def fpr(self) -> Vector:
        """The share of accepted negatives at each corner."""
        return np.asarray(self.accepted_negative / self.accepted_negative[-1])


def corners(positive: Mask, scores: Vector, weight: Vector) -> Corners:
    """Return the corners of the ROC curve of weighted examples."""
    negated, step = np.unique(-scores, return_inverse=True)
    accepted = [
        np.concatenate(([0.0], np.cumsum(np.bincount(step, np.where(members, weight, 0.0)))))
        for members in (positive, ~positive)
    ]
    return Corners(step, -negated, accepted[0], accepted[1])
