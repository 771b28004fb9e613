# SPDX-License-Identifier: BSD-3-Clause
"""`NamedLearner` and feature maps with River's interface; needs River (extra ``river``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.losses import PairLoss
from pairlearn.streams.named import NamedLearner
from river import base


class RiverAUCClassifier(NamedLearner, base.Classifier):  # type: ignore[misc]
    """Online AUC maximisation with River's interface.

    Parameters
    ----------
    loss : str or PairLoss, default="auto"
        The pair loss. By default class moments are kept, which stand for the square loss.
    step_size : float or "auto", default="auto"
        Scale c of the step sizes c / sqrt(t); a number asks for descent.
    radius : float, default=inf
        Radius of the ball that the coefficients live in; a finite one asks for descent.
    scaling : "auto" or None, default="auto"
        Whether to learn the scales of features on the way; see `NamedLearner`.
    memory : float or "auto", default="auto"
        How long class moments remember, as a half-life in examples.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = RiverAUCClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC())
    ROCAUC: 94...%
    """

    def __init__(
        self,
        loss: str | PairLoss = "auto",
        step_size: float | str = "auto",
        radius: float = math.inf,
        scaling: str | None = "auto",
        memory: float | str = "auto",
    ) -> None:
        super().__init__(loss, step_size=step_size, radius=radius, scaling=scaling, memory=memory)

    @property
    def _multiclass(self) -> bool:
        return False

    def predict_one(self, x: Mapping[Any, float], **kwargs: Any) -> bool:
        """Return whether True is the more probable label."""
        return NamedLearner.predict_one(self, x)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {}
        yield {"memory": 500.0, "scaling": None}
        yield {"loss": "logistic", "step_size": 0.1}
        yield {"loss": "square", "step_size": 0.01, "radius": 5.0, "scaling": None}


class RiverFeatures(base.Transformer):  # type: ignore[misc]
    """A fitted feature map for a River pipeline: dicts in, dicts of mapped features out.

    A feature that an example lacks counts as zero, as in `NamedLearner`. The map never changes.

    Parameters
    ----------
    features : FeatureMap
        A fitted map, for example fitted to a sample of the stream.
    names : sequence
        The names of its inputs, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn.features import Hats
    >>> hats = Hats(n_knots=3).fit(np.linspace(0.0, 1.0, 100)[:, np.newaxis])
    >>> bent = RiverFeatures(hats, ["age"])
    >>> {name: round(value, 2) for name, value in bent.transform_one({"age": 0.25}).items()}
    {0: 0.49, 1: 0.0}
    """

    def __init__(self, features: FeatureMap, names: Sequence[Any]) -> None:
        features.check_fitted()
        if len(names) != features.n_inputs or len(set(names)) != len(names):
            raise ValueError(
                f"names must be {features.n_inputs} different names, one for each input of "
                f"{type(features).__name__}, got {list(names)!r:.200}."
            )
        self.features, self.names = features, list(names)
        self._places = {name: k for k, name in enumerate(names)}

    def transform_one(self, x: Mapping[Any, float]) -> dict[int, float]:
        """Return the mapped features of one example, numbered from 0."""
        row = np.zeros((1, len(self.names)))
        for name, value in x.items():
            place = self._places.get(name)
            if place is None:
                raise ValueError(
                    f"feature {name!r} is not an input of the map; select its inputs before it "
                    "(river.compose.Select), or fit the map to all features."
                )
            row[0, place] = value
        return dict(enumerate(self.features.transform(row)[0].tolist()))

    @classmethod
    def _unit_test_params(cls) -> Any:
        from pairlearn.features import Identity

        yield {"features": Identity.of(2), "names": ["x", "y"]}
