# SPDX-License-Identifier: BSD-3-Clause
"""Label rules: turn the classes of a file into y = +1 and y = -1.

AUC needs two classes. A rule for two classes names the positive one; with more classes the paper
takes the first half of the class numbers as positive (appendix on additional experiments).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.data.errors import DataCorruptError
from pairlearn.typing import Vector


@dataclass(frozen=True)
class PositiveLabel:
    """Two classes; the named one is positive.

    Parameters
    ----------
    label : float, default=1.0
        The label that becomes +1; the other one becomes -1.

    Examples
    --------
    >>> PositiveLabel(4).signs([2, 4, 4])
    array([-1.,  1.,  1.])
    """

    label: float = 1.0

    def __str__(self) -> str:
        return f"label {self.label:g} is +1, the other is -1"

    def signs(self, labels: ArrayLike) -> Vector:
        """Return +1 for the positive label, -1 for the other."""
        values = np.asarray(labels, dtype=np.float64)
        classes = np.unique(values)
        if len(classes) != 2 or self.label not in classes:
            raise DataCorruptError(
                f"the rule '{self}' needs two classes, one of them labelled {self.label:g}; the "
                f"labels are {_shown(classes)}. Use FirstHalf() for more than two classes."
            )
        return np.where(values == self.label, 1.0, -1.0)


@dataclass(frozen=True)
class FirstHalf:
    """Sorted class labels: the first floor(C / 2) become +1, the others -1, as in the paper.

    Examples
    --------
    >>> FirstHalf().signs([0, 1, 2, 3, 4])
    array([ 1.,  1., -1., -1., -1.])
    """

    def __str__(self) -> str:
        return "first half of the sorted classes is +1, the others are -1"

    def signs(self, labels: ArrayLike) -> Vector:
        """Return +1 for the first half of the classes, -1 for the others."""
        values = np.asarray(labels, dtype=np.float64)
        classes = np.unique(values)
        if len(classes) < 3:
            raise DataCorruptError(
                f"the rule '{self}' is for three classes or more; the labels are "
                f"{_shown(classes)}. Use PositiveLabel(...) for two classes."
            )
        return np.where(np.isin(values, classes[: len(classes) // 2]), 1.0, -1.0)


@dataclass(frozen=True)
class OneAgainstRest:
    """One class of several becomes +1, all others -1.

    Parameters
    ----------
    label : float
        The label that becomes +1.

    Examples
    --------
    >>> OneAgainstRest(2).signs([1, 2, 3])
    array([-1.,  1., -1.])
    """

    label: float

    def __str__(self) -> str:
        return f"label {self.label:g} is +1, all others are -1"

    def signs(self, labels: ArrayLike) -> Vector:
        """Return +1 for the positive label, -1 for all others."""
        values = np.asarray(labels, dtype=np.float64)
        classes = np.unique(values)
        if len(classes) < 2 or self.label not in classes:
            raise DataCorruptError(
                f"the rule '{self}' needs the label {self.label:g} and another one; the labels are "
                f"{_shown(classes)}. Choose one of these."
            )
        return np.where(values == self.label, 1.0, -1.0)


LabelRule = PositiveLabel | FirstHalf | OneAgainstRest


def to_signs(labels: ArrayLike, rule: LabelRule | None = None) -> Vector:
    """Return labels in {-1, +1}.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The labels in the file.
    rule : PositiveLabel, FirstHalf or OneAgainstRest, optional
        The default is `FirstHalf` for more than two classes. For two classes, the positive label
        is 1 if it occurs, otherwise the larger label.

    Returns
    -------
    ndarray of shape (n,)
        One sign for each example.

    Examples
    --------
    >>> to_signs([1, 2, 2])
    array([ 1., -1., -1.])
    >>> to_signs([3, 1, 2])
    array([-1.,  1., -1.])
    """
    values = np.asarray(labels, dtype=np.float64)
    if not np.isfinite(values).all():
        raise DataCorruptError(
            "the labels contain NaN or infinity; remove or correct these examples."
        )
    if rule is None:
        classes = np.unique(values)
        if len(classes) < 2:
            raise DataCorruptError(
                f"AUC needs two classes, but the labels are {_shown(classes)}; add examples of "
                "the other class."
            )
        if len(classes) > 2:
            rule = FirstHalf()
        else:
            rule = PositiveLabel(1.0 if 1.0 in classes else float(classes[-1]))
    return rule.signs(values)


def _shown(classes: Vector) -> str:
    few = ", ".join(f"{label:g}" for label in classes[:6])
    return f"{{{few}{', ...' if len(classes) > 6 else ''}}}"
