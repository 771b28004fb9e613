# SPDX-License-Identifier: BSD-3-Clause
"""The kinds of models that ``pairlearn train`` makes, as methods of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.experiments.methods.base import Fitted, Method
from pairlearn.typing import Vector


@dataclass(frozen=True, kw_only=True)
class ModelMethod(Method):
    """A kind of model by name, or with "auto" the kind that ``train`` takes; not tuned outside."""

    kind: str

    def fit(self, X: Any, y: Vector, params: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
        """Return the fitted model."""
        from pairlearn.estimators.stack.choice import choose_model, make_model, why_linear
        from pairlearn.tables.encoding import MOST_DENSE_FEATURES

        seed = int(rng.integers(2**31 - 1))
        if self.kind != "auto":
            return Fitted(model=make_model(self.kind, seed).fit(X, y))
        # A table of more features stays sparse in `train`, and is dense here.
        if why_linear(X, y) or X.shape[1] > MOST_DENSE_FEATURES:
            return Fitted(model=make_model("linear", seed).fit(X, y))
        return Fitted(model=choose_model(X, y, seed=seed)[1])
