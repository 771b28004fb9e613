# SPDX-License-Identifier: BSD-3-Clause
"""The AUC of many classes: the mean over pairs of classes (Hand and Till's M).

References
----------
D. Hand and R. Till, A simple generalisation of the area under the ROC curve for multiple class
classification problems, Machine Learning 45, 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics.auc import doubled_below
from pairlearn.metrics.metric import Measured, Metric
from pairlearn.metrics.partial import PartialAUC
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_flag, float_array


def mean_pair_auc(codes: Places, scores: Vector, weight: Vector, n_classes: int) -> float:
    """Return ``HandTill(pairs=True)`` of classes 0, 1, ..., without its influences."""
    members = [np.flatnonzero((codes == code) & (weight > 0.0)) for code in range(n_classes)]
    areas = []
    for column, (first, second) in enumerate(combinations(members, 2)):
        if len(first) and len(second):
            own, other = weight[second], weight[first]
            below = doubled_below(scores[second, column], scores[first, column], other)
            areas.append(0.5 * float(own @ below) / (own.sum() * other.sum()))
    if not areas:
        raise ValueError("y must hold at least two classes; there is no pair to compare.")
    # Rounding of weights must not make an area of more than 1.
    return min(float(np.mean(areas)), 1.0)


@dataclass(frozen=True)
class HandTill(Metric):
    """The mean, over pairs of classes, of the AUC between the two classes.

    With one score for each class, the AUC of a pair is the mean of the AUCs of both classes' own
    scores; this is scikit-learn's ``roc_auc_score(multi_class="ovo")``. With one score for each
    pair, as from a pairwise classifier, it is the AUC of that score.

    Parameters
    ----------
    pairs : bool, default=False
        Whether scores have a column for each pair of classes (first with second, first with
        third, ...), larger for the later class of the pair; by default one for each class.
    classes : sequence, optional
        The classes in the order of the columns; by default those of y, sorted. If given, a class
        may be missing in y: the mean is then over the present pairs.

    Examples
    --------
    >>> scores = [[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]
    >>> HandTill()([0, 1, 2, 0], scores)
    1.0
    """

    pairs: bool = False
    classes: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        check_flag("pairs", self.pairs)
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError(
                f"classes must differ, got {list(self.classes)!r}; name the class of each column "
                "once."
            )

    def check_scores(self, name: str, scores: ArrayLike, n: int) -> Vector:
        """Return scores as a matrix with one row for each label."""
        values = float_array(name, scores, ordered=True)
        if values.ndim != 2 or len(values) != n:
            raise ValueError(
                f"{name} must be a matrix with one row for each of {n} labels and one column for "
                f"each {'pair of classes' if self.pairs else 'class'}, got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError(f"{name} contains NaN or infinity; every score must be finite.")
        return values

    def measure(self, labels: NDArray[Any], scores: Vector, weight: Vector) -> Measured:
        """Return the mean over pairs and its influences."""
        present = np.unique(labels)
        classes = list(present) if self.classes is None else list(self.classes)
        unknown = [label for label in present.tolist() if label not in classes]
        if unknown:
            raise ValueError(f"y holds {unknown[0]!r}, which is not in classes={classes!r}.")
        n_classes = len(classes)
        expected = n_classes * (n_classes - 1) // 2 if self.pairs else n_classes
        if scores.shape[1] != expected:
            raise ValueError(
                f"scores must have {expected} columns for {n_classes} classes, got "
                f"{scores.shape[1]}; name all classes with classes=... if some are missing in y."
            )
        members = [np.flatnonzero(labels == label) for label in classes]
        found: list[Measured] = []
        influence = np.zeros(len(labels))
        area = PartialAUC()
        for column, (first, second) in enumerate(combinations(range(n_classes), 2)):
            if not (len(members[first]) and len(members[second])):
                continue
            rows = np.concatenate((members[first], members[second]))
            later = np.arange(len(rows)) >= len(members[first])
            # with a score per class, the first class is positive for its own score
            views = [(column, later)] if self.pairs else [(first, ~later), (second, later)]
            for column_, positive in views:
                one = area.measure_classes(positive, scores[rows, column_], weight[rows])
                found.append(one)
                influence[rows] += one.influence
        if not found:
            raise ValueError(
                f"y must hold at least two classes, got {len(present)}; there is no pair to "
                "compare."
            )
        value = float(np.mean([one.value for one in found]))
        # an example takes part in 2 of K pairs of classes
        n_present = len(present)
        return Measured(
            value,
            influence / len(found),
            min(one.n_terms for one in found),
            reach=(4.0 / n_present**2,) * n_present,
        )
