# SPDX-License-Identifier: BSD-3-Clause
"""Feature maps side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.features.base import Bounds, FeatureMap, blocks_of, of_known
from pairlearn.validation import check_generator

#: Number of rows per map that are in memory at once.
_ROWS = 1024


@dataclass(frozen=True, init=False)
class Union(FeatureMap):
    """The features of several maps, one after the other.

    Parameters
    ----------
    *given : FeatureMap
        The maps; a fitted one stays as it is.
    maps : sequence of FeatureMap, default=()
        Further maps.

    Examples
    --------
    >>> from pairlearn.features import Hats, Identity
    >>> Union(Identity(), Hats(n_knots=2)).fit([[0.0], [4.0]]).transform([[1.0]])
    array([[1.  , 0.25]])
    """

    maps: tuple[FeatureMap, ...]

    def __init__(self, *given: FeatureMap, maps: Sequence[FeatureMap] = ()) -> None:
        given = (*given, *maps)
        wrong = [one for one in given if not isinstance(one, FeatureMap)]
        if wrong or not given:
            raise TypeError(
                f"Union needs one or more feature maps, got {wrong[0] if wrong else 'none'!r}."
            )
        object.__setattr__(self, "maps", tuple(given))

    @property
    def closed_form(self) -> bool:  # type: ignore[override]
        """Whether one of the maps has many features, each of which says little."""
        return any(one.closed_form for one in self.maps)

    @property
    def constrained(self) -> bool:  # type: ignore[override]
        """Whether one of the maps asks for signs of coefficients."""
        return any(one.constrained for one in self.maps)

    @property
    def takes_weights(self) -> bool:  # type: ignore[override]
        """Whether one of the maps takes weights; the others learn from all examples alike."""
        return any(one.takes_weights for one in self.maps)

    def fit(self, X: Any, *, rng: Any = None, sample_weight: Any = None) -> Self:
        """Return the union of the maps fitted to examples."""
        if sample_weight is not None and not self.takes_weights:
            raise ValueError(f"{self!r} learns from all examples alike; leave out sample_weight.")
        generator = check_generator(rng)
        fitted = []
        for one in self.maps:
            given = {"sample_weight": sample_weight} if one.takes_weights else {}
            fitted.append(one if one.is_fitted else one.fit(X, rng=generator, **given))
        return self._joined(fitted)

    def _joined(self, fitted: list[FeatureMap]) -> Self:
        widths = {one.n_inputs for one in fitted}
        if len(widths) > 1:
            raise ValueError(f"The maps of a Union were fitted to {sorted(widths)} features.")
        made = type(self)(*fitted)
        vars(made).update(n_inputs=widths.pop(), n_outputs=sum(one.n_outputs for one in fitted))
        return made

    def mapped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the mapped rows."""
        return np.hstack([one.mapped(X) for one in self.maps])

    def fill(self, X: Any, out: NDArray[Any]) -> None:
        """Let each map fill its columns."""
        for rows in blocks_of(X.shape[0], _ROWS):
            place = 0
            for one in self.maps:
                found = one.transform(X[rows], dtype=out.dtype)
                out[rows, place : place + found.shape[1]] = found
                place += found.shape[1]

    def bounds(self) -> Bounds:
        """Return the widest range and the root of the sum of the squared norms."""
        known = [one.bounds() for one in self.maps]
        return Bounds(
            min(b.lower for b in known),
            max(b.upper for b in known),
            float(np.sqrt(sum(b.norm**2 for b in known))),
        )

    def state(self) -> dict[str, Any]:
        """Return the states of the maps."""
        self.check_fitted()
        return {"map": "Union", "maps": [one.state() for one in self.maps]}

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], *, known: Sequence[type[FeatureMap]] = ()
    ) -> Self:
        """Return the union of a saved `state`."""
        saved = state.get("maps")
        if state.get("map") != cls.__name__ or not isinstance(saved, list) or not saved:
            raise ValueError(f"the saved map is {state.get('map')!r:.60}, not a Union of maps.")
        maps = [of_known(one, known) for one in saved]
        return cls(*maps)._joined(maps)

    def onnx(self, graph: Any, rows: str) -> str:
        """Add all maps and concatenate their results."""
        parts = [one.onnx(graph, rows) for one in self.maps]
        joined: str = graph.node("Concat", parts, axis=1)
        return joined
