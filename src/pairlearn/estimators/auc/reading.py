# SPDX-License-Identifier: BSD-3-Clause
"""Labelled rows as the fit of an AUC classifier reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.shared.examples import find_classes, rows_and_labels, with_weight
from pairlearn.estimators.shared.weights import (
    chunk_weights,
    example_weights,
    opposite_pair_weights,
    unit_of_pairs,
)
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Labels, Vector


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows with labels and weights; those of weight zero are left out.

    `weighed` tells whether a row had another weight than 1, `zeros` whether one had none. `signs`,
    `y`, `weight` and what follows are those of two classes.
    """

    rows: Rows
    labels: Labels
    classes: Labels
    sample_weight: ArrayLike | None
    weighed: bool
    zeros: bool

    @classmethod
    def read(cls, model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Examples:
        """Return the checked examples of a fit; NaN in them is looked for when they are scaled."""
        rows, labels = rows_and_labels(model, X, y, reset=True, minimum=2, finite=None)
        classes, given = find_classes(labels), chunk_weights(sample_weight, len(labels))
        facts = bool((given != 1.0).any()), not given.all()
        kept = with_weight(rows, labels, sample_weight, len(classes))
        return cls(kept[0], kept[1], classes, kept[2], *facts)

    @cached_property
    def counts(self) -> Vector:
        """How often each example counts; empty if all count the same."""
        return chunk_weights(self.sample_weight, len(self.labels))

    @cached_property
    def signs(self) -> NDArray[np.int8]:
        """The labels as -1 and +1, in bytes, which stay in the cache."""
        return 2 * np.asarray(self.labels == self.classes[1]).astype(np.int8) - 1

    @cached_property
    def y(self) -> Vector:
        """The labels as -1.0 and +1.0."""
        return self.signs.astype(np.float64)

    @cached_property
    def unit(self) -> float:
        """The root of the mean product of weights over opposite pairs."""
        return unit_of_pairs(self.counts, self.signs > 0, self.classes)

    @cached_property
    def weight(self) -> Vector:
        """Weights whose products over opposite pairs have mean 1; empty without weights."""
        return self.counts / self.unit

    def importance(self, class_weight: Any) -> Vector:
        """Return the weights times those of classes, which are for the decision alone."""
        weight = example_weights(self.sample_weight, class_weight, self.labels)
        return opposite_pair_weights(weight, self.signs > 0, self.classes)
