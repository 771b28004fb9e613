# SPDX-License-Identifier: BSD-3-Clause
"""Scores of examples by models that had not seen them, fold by fold, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.metrics.delong import AUCInterval, compare_auc, mean_auc_interval, roc_auc_interval
from pairlearn.typing import Mask, Places, Vector


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of the same examples by several models, each of which had not seen them.

    Parameters
    ----------
    positive : ndarray of shape (n,)
        Which examples are positive.
    folds : sequence of ndarray
        The examples of each fold. Scores of two folds come from two models, so they are never
        compared.
    scores : mapping of str to ndarray of shape (n,)
        The scores, by the name of the model.
    """

    positive: Mask
    folds: Sequence[Places]
    scores: Mapping[str, Vector]

    @property
    def fewest(self) -> int:
        """The smallest number of examples of a class in a fold."""
        sizes = (self.positive[held] for held in self.folds)
        return min(int(min(own.sum(), (~own).sum())) for own in sizes)

    def intervals(self) -> dict[str, AUCInterval]:
        """Return the mean AUC over the folds of each model, with its interval."""
        if self.fewest < 2:  # A fold with a single positive has no standard error.
            return {name: roc_auc_interval(self.positive, s) for name, s in self.scores.items()}
        return {
            name: mean_auc_interval(
                [roc_auc_interval(self.positive[held], s[held]) for held in self.folds]
            )
            for name, s in self.scores.items()
        }

    def error_of_difference(self, one: str, other: str) -> float:
        """Return the standard error of the difference of two AUCs; infinite if it is not known.

        It is DeLong's in each fold; folds hold different examples, so their variances add up.
        """
        a, b = self.scores[one], self.scores[other]
        errors = [
            compare_auc(self.positive[held], a[held], b[held]).standard_error for held in self.folds
        ]
        found = math.sqrt(math.fsum(error**2 for error in errors)) / len(errors)
        return found if np.isfinite(found) else math.inf
