# SPDX-License-Identifier: BSD-3-Clause
"""The task of a solver of an AUC classifier: all settings of a fit, without the examples."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.solvers import way_of
from pairlearn.features import FeatureMap
from pairlearn.folds import Keys
from pairlearn.losses import PairLoss
from pairlearn.solvers.running import Callback
from pairlearn.solvers.top.objectives import Objective
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.estimators.shared.decisions import Decision
    from pairlearn.estimators.shared.judged_maps import JudgedMap


@dataclass(frozen=True)
class Before:
    """The model that a stream continues."""

    coef: Vector
    #: Number of examples that it was learned from, which sets the step size.
    n_examples: int
    decision: Decision
    #: Scales of its features, if they are known.
    scales: Any = None
    #: The row from which the stream before measured its scores.
    origin: Vector | None = None


@dataclass(frozen=True)
class Task:
    """All settings of a fit of two classes, without the examples.

    `features` is the fitted map; None if a stream has yet to fit it. `validation_fraction` is the
    share of a fold. `free` says that solver, loss and ridge are all automatic, so that a share of
    Fisher's discriminant may be mixed in.
    """

    objective: Objective
    loss: PairLoss
    features: FeatureMap | None
    is_scaled: bool
    rng: np.random.Generator
    validation_fraction: float = 0.2
    free: bool = False
    n_jobs: int | None = None
    verbose: int = 0
    callbacks: Sequence[Callback] = ()
    #: Deal folds and draw samples, by what the examples hold; None for a stream, which has neither.
    keys: Keys | None = None
    #: Coefficients to start from.
    start: Vector | None = None
    #: Signs of coefficients, for monotone functions.
    signs: NDArray[np.int64] | None = None
    #: The map that was chosen as it was judged, if it was; linear features are fitted anew.
    judged: JudgedMap | None = None
    #: How often each example counts, without the weights of classes; None for a stream.
    counts: Vector | None = None
    #: Fits the map of a stream to its first examples.
    fit_map: Any = field(default=None, compare=False)
    #: How to train by each kind of solver.
    ways: Mapping[type, Any] = field(default_factory=dict, compare=False)

    def of_some(self, index: NDArray[np.int64]) -> Task:
        """Return the task for some of the examples."""
        return self if self.keys is None else replace(self, keys=self.keys.take(index))

    @property
    def margin(self) -> float:
        """The margin of the square loss, 1 for a loss that has none."""
        return float(self.loss.parameter) if self.loss.by_moments else 1.0

    def way(self, solver: Any) -> Any:
        """Return how an AUC classifier trains by a solver."""
        return way_of(solver, self.ways, "AUCClassifier")(self, solver)

    def tell(self, text: str, choice: Choice) -> None:
        """Tell a person on stderr what was chosen, if asked to."""
        if self.verbose:
            told = "" if choice.evidence is None else f", {self.evidence(choice)}"
            print(f"{text}{told}", file=sys.stderr)

    def evidence(self, choice: Choice) -> str:
        """Return how good the chosen candidate was, for a person."""
        found = choice.evidence
        assert found is not None
        error = "" if found.n_folds == 1 else f" +- {found.standard_error:.4f}"
        return f"held-out {self.objective.title} {found.auc:.4f}{error}"
