# SPDX-License-Identifier: BSD-3-Clause
"""The choices of a fit and their evidence: all candidates with their held-out worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from pairlearn.register import RECORDS, EqualFields, Record
from pairlearn.shown import Shown, Table, number
from pairlearn.solvers.top.objectives import Objective

Model = TypeVar("Model")
#: The values of a candidate by name, its models, and its worth on each fold.
Candidate = tuple[dict[str, float], Model, Sequence[float]]

#: With more features features="auto" is linear: the closed form costs the cube of their number.
MOST_FEATURES = 2_000


@contextmanager
def threads(n_jobs: int | None) -> Iterator[Callable[..., Any]]:
    """Map a function over threads, in order. `n_jobs=-1` uses all processors."""
    if n_jobs is None or n_jobs == 1:
        yield map
        return
    import os
    from concurrent.futures import ThreadPoolExecutor

    if n_jobs == 0 or n_jobs < -1:
        raise ValueError(f"n_jobs must be a number of threads, -1 for all, or None, got {n_jobs}.")
    with ThreadPoolExecutor(os.cpu_count() if n_jobs == -1 else n_jobs) as pool:
        yield pool.map


@RECORDS.add()
@dataclass(frozen=True, eq=False)
class Tried(EqualFields, Record):
    """One candidate and its worth on held-out examples."""

    #: The values of the candidate, by name.
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
        if n == 1:
            return cls(values, float(aucs[0]), math.nan, 1)
        error = float(np.std(aucs, ddof=1) / np.sqrt(n)) if n > 1 else math.nan
        return cls(values, float(np.mean(aucs)), error, n)


@dataclass(frozen=True)
class Best(Generic[Model]):
    """The best candidate, its models on the folds, and all candidates."""

    evidence: Tried
    model: Model
    tried: tuple[Tried, ...]


def best_of(candidates: Iterable[Candidate[Model]], n_errors: float = 0.0) -> Best[Model]:
    """Return the candidate with the best mean over the folds; of equals the first.

    Any other than the first must be better than the first by `n_errors` standard errors of their
    difference over the folds.
    """
    tried: list[Tried] = []
    first, best = None, None
    for values, model, worth in candidates:
        tried.append(Tried.of(values, worth))
        if first is None or best is None:
            first, best = np.array(worth), (tried[-1], model)
            continue
        if tried[-1].auc > best[0].auc:
            gain = Tried.of({}, (worth - first).tolist())
            if n_errors == 0.0 or gain.auc > n_errors * gain.standard_error:
                best = tried[-1], model
    if best is None:
        raise ValueError("there are no candidates to choose from; give at least one.")
    return Best(*best, tuple(tried))


@RECORDS.add()
@dataclass(frozen=True, eq=False)
class JudgedFeatures(EqualFields, Record):
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


@RECORDS.add()
@dataclass(frozen=True)
class FeatureChoice(Shown, Record):
    """The features that a fit chose, and the evidence."""

    name: str
    #: All candidates, from the simplest on; none if there are too many features for a choice. A
    #: Fourier map that failed a trial on few examples is left out, and so is what comes after a map
    #: whose held-out AUC is 1.
    judged: tuple[JudgedFeatures, ...] = ()

    @property
    def reason(self) -> str:
        """The reason of the choice, in words."""
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

    def shown_title(self) -> str:
        """Return the reason of the choice."""
        return self.reason

    def shown_table(self) -> Table:
        """Return all candidates with their held-out AUC."""
        head = ("", "features", "held-out AUC", "error to the best", "ridge", "mapped")
        return head, [
            [
                "chosen" if one.name == self.name else "",
                one.name,
                number(one.auc),
                number(one.standard_error),
                number(one.ridge),
                str(one.n_features),
            ]
            for one in self.judged
        ]


@RECORDS.add()
@dataclass(frozen=True)
class Choice(Shown, Record):
    """The choices of a fit, and the evidence."""

    step_size: float | None = None
    radius: float = np.inf
    ridge: float | None = None
    #: The chosen candidate; None if there was no choice.
    evidence: Tried | None = None
    #: All candidates, in the order in which they were tried.
    tried: tuple[Tried, ...] = ()
    #: The choice of the features; None if they were given.
    features: FeatureChoice | None = None
    #: The objective of an exact fit for the top of the list; None for the mean over all pairs.
    top: Objective | None = None
    #: The ridge of the anchor, the minimiser for all pairs; None without an anchor.
    anchor_ridge: float | None = None
    #: The share of Fisher's discriminant in the coefficients, or in the anchor if there is one.
    fisher: float = 0.0

    @property
    def auc(self) -> float | None:
        """The held-out AUC of the chosen candidate."""
        return None if self.evidence is None else self.evidence.auc

    def shown_title(self) -> str:
        """Return what was chosen, and why the features."""
        values = {"step size": self.step_size, "radius": self.radius, "ridge": self.ridge}
        if math.isinf(self.radius):
            del values["radius"]
        if self.fisher:
            values["share of Fisher's discriminant"] = self.fisher
        told = ", ".join(f"{k} {number(v)}" for k, v in values.items() if v is not None)
        about = [told or "nothing was left to choose"]
        if self.features is not None:
            about.append(f"features: {self.features.reason}")
        return "; ".join(about)

    def shown_table(self) -> Table:
        """Return all candidates with their held-out AUC."""
        names = list(dict.fromkeys(name for one in self.tried for name in one.values))
        head = ("", *names, "held-out AUC", "standard error", "folds")
        return head, [
            [
                "chosen" if one is self.evidence or one == self.evidence else "",
                *(number(one.values[name]) if name in one.values else "" for name in names),
                number(one.auc),
                number(one.standard_error),
                str(one.n_folds),
            ]
            for one in self.tried
        ]
