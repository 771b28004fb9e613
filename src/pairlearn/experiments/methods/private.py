# SPDX-License-Identifier: BSD-3-Clause
"""Private learners as methods of a comparison, with the epsilon of the guarantee in the name.

`PUBLIC_FACTS` come from the documentation of the data, not from the data: private learners know no
more.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.experiments.methods.base import Fitted, Method
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.mechanisms.by_name import MECHANISMS, get_mechanism
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.recipes import PRIVATE_RECIPES, Recipe
from pairlearn.typing import Vector


@dataclass(frozen=True)
class PublicFacts:
    """Bounds of the features; levels are 0 for continuous, k for a code of k levels."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    levels: tuple[int, ...]


_GERMAN_LOWER = (1, 0, 0, 0, 1, 1, 1, 1, 1, 18, 1, 1, 1, 1, 1) + (0,) * 9
_GERMAN_UPPER = (4, 72, 4, 200, 5, 5, 4, 4, 4, 80, 3, 4, 2, 2, 2) + (1,) * 9
_GERMAN_LEVELS = [b - a + 1 for a, b in zip(_GERMAN_LOWER, _GERMAN_UPPER, strict=True)]
for _continuous in (1, 3, 9):  # duration, credit amount, age
    _GERMAN_LEVELS[_continuous] = 0

#: By the names of `pairlearn.data.load`: the paper's two small data sets.
PUBLIC_FACTS = {
    "diabetes": PublicFacts(
        (0, 0, 0, 0, 0, 0, 0, 20), (20, 200, 140, 100, 900, 70, 2.5, 90), (0,) * 8
    ),
    "german": PublicFacts(_GERMAN_LOWER, _GERMAN_UPPER, tuple(_GERMAN_LEVELS)),
}

#: Algorithm 3 with the published noise, which is proved for epsilon up to 1 and refuses more.
PAPER_NOISE = "localized_sgd (paper noise)"

#: The private learners of a comparison, by name: the mechanisms, then the paper's algorithms.
PRIVATE_LEARNERS: dict[str, Mechanism | Recipe] = {
    **{name: get_mechanism(name) for name in MECHANISMS},
    **PRIVATE_RECIPES,
}


def relations_of(name: str) -> tuple[str, ...]:
    """Return the neighbouring relations for which a private learner is proved."""
    learner = PRIVATE_LEARNERS[name]
    if isinstance(learner, Mechanism):
        return learner.relations
    return ("replace", "add_remove") if name == "single_pass" else ("replace",)


@dataclass(frozen=True)
class _Direction:
    """A linear score of rows that are clipped to public bounds."""

    setting: PublicSetting
    direction: Vector

    def decision_function(self, X: Any) -> Vector:
        """Return the scores."""
        return np.asarray(self.setting.to_standard(X) @ self.direction)


@dataclass(frozen=True, kw_only=True)
class PrivateMethod(Method):
    """A private AUC learner on one of the two data sets with known public bounds.

    Features must not be scaled beforehand. `mechanism` is a key of `PRIVATE_LEARNERS`, and
    `n_train` the number of training examples.
    """

    facts: str
    n_train: int
    epsilon: float
    delta: float
    mechanism: str = "statistics"
    neighbours: str = "replace"

    def warm_up(self, d: int) -> None:
        """Load the mechanism, and compile its kernels if it has any."""
        facts = PUBLIC_FACTS[self.facts]
        rng = np.random.default_rng(0)
        X = rng.uniform(facts.lower, facts.upper, size=(self.n_train, len(facts.lower)))
        self.fit(X, np.where(X[:, 0] > np.median(X[:, 0]), 1.0, -1.0), {}, rng)

    def fit(self, X: Any, y: Vector, params: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
        """Return the private model; its noise is seeded, as a simulation needs."""
        from pairlearn.estimators.private.auc import PrivateAUCClassifier
        from pairlearn.privacy.accounting.certificate import PrivacyWarning

        facts, learner = PUBLIC_FACTS[self.facts], PRIVATE_LEARNERS[self.mechanism]
        # A simulation: seeded noise is not private, but has the same law.
        seed = int(rng.integers(2**31 - 1))
        if not isinstance(learner, Mechanism):
            setting = PublicSetting.make(
                len(y), lower=facts.lower, upper=facts.upper, epsilon=self.epsilon,
                delta=self.delta, levels=facts.levels, neighbours=self.neighbours,
            )  # fmt: skip
            noise, Z = NoiseSource(seed=seed), setting.to_standard(X)
            found = learner.fit(Z, np.where(y == 1.0, 1.0, -1.0), setting=setting, noise=noise)
            return Fitted(model=_Direction(setting, found.direction))
        model = PrivateAUCClassifier(
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=(facts.lower, facts.upper),
            levels=facts.levels,
            labels=(-1.0, 1.0),
            mechanism=learner,
            neighbours=self.neighbours,
            n_examples=len(y),
            random_state=seed,
        )
        with warnings.catch_warnings():
            # A remark beside the table says once that seeded noise and delta = 1/n promise little.
            warnings.simplefilter("ignore", PrivacyWarning)
            return Fitted(model=model.fit(X, y))
