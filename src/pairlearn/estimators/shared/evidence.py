# SPDX-License-Identifier: BSD-3-Clause
"""What a fit chose and on what evidence: the candidates, and what each was worth held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.solvers.top.objectives import TopOfList

__all__ = ["MOST_FEATURES", "Choice", "FeatureChoice", "JudgedFeatures", "Tried"]

#: With more features than this, a closed form is too slow to compare maps, and "auto" is linear.
MOST_FEATURES = 2_000


@dataclass(frozen=True)
class Tried:
    """One candidate and what it was worth on held-out examples."""

    #: What was tried, by name.
    values: dict[str, float]
    #: Mean AUC over the folds.
    auc: float
    #: Its standard error over the folds; NaN for a single one.
    standard_error: float
    n_folds: int

    @classmethod
    def of(cls, values: dict[str, float], aucs: Sequence[float]) -> Tried:
        """Return the candidate with the AUC that it reached on each fold."""
        n = len(aucs)
        error = float(np.std(aucs, ddof=1) / np.sqrt(n)) if n > 1 else math.nan
        return cls(values, float(np.mean(aucs)), error, n)


@dataclass(frozen=True)
class JudgedFeatures:
    """A candidate and what it was worth on held-out examples."""

    #: "linear", "hats" or "fourier".
    name: str
    #: Mean AUC over the folds, with the best ridge.
    auc: float
    #: Standard error of its difference to the best candidate; 0 for that one.
    standard_error: float
    ridge: float
    #: Number of mapped features.
    n_features: int


@dataclass(frozen=True)
class FeatureChoice:
    """Which features a fit chose, and on what evidence."""

    name: str
    #: All candidates, from the simplest on; none where the number of features left no choice. One
    #: that was behind on a part of the examples is left out.
    judged: tuple[JudgedFeatures, ...] = ()

    @property
    def reason(self) -> str:
        """Why, for a person."""
        if not self.judged:
            return f"{self.name}: more than {MOST_FEATURES:,} features, others were not tried"
        told = ", ".join(f"{one.name} {one.auc:.4f}" for one in self.judged)
        best = max(self.judged, key=lambda one: one.auc)
        if best is self.judged[0]:
            return f"{self.name} is the simplest and has the best held-out AUC ({told})"
        if best.name == self.name:
            return f"{self.name} has the best held-out AUC ({told}), by more than a standard error"
        own = next(one for one in self.judged if one.name == self.name)
        return (
            f"{self.name} is the simplest within a standard error ({own.standard_error:.4f}) of "
            f"{best.name} by held-out AUC ({told})"
        )


@dataclass(frozen=True)
class Choice:
    """What a fit chose, and on what evidence."""

    step_size: float | None = None
    radius: float = np.inf
    ridge: float | None = None
    #: The chosen candidate; None where nothing was to be chosen.
    evidence: Tried | None = None
    #: All candidates, in the order in which they were tried.
    tried: tuple[Tried, ...] = ()
    #: Which features were chosen, and why; None where they were given.
    features: FeatureChoice | None = None
    #: What an exact fit minimised for the top of the list; None for the mean over all pairs.
    top: TopOfList | None = None
    #: The ridge of the minimiser for all pairs that the model is pulled towards, where it is.
    anchor_ridge: float | None = None
    #: The share of Fisher's discriminant in the coefficients, or in those that they are pulled to.
    fisher: float = 0.0

    @property
    def auc(self) -> float | None:
        """The held-out AUC of the chosen candidate."""
        return None if self.evidence is None else self.evidence.auc
