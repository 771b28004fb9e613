# SPDX-License-Identifier: BSD-3-Clause
"""A stream learned by class moments of mapped rows: one pass gives what `fit` would give.

The first examples are kept until the map is fitted to them; then only their moments remain
(`block_stream`). A map that is fitted already needs no examples. Until the map is fitted, a model
is fitted to the kept examples when it is asked for, and for scores whenever their number doubled.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pairlearn.features import FeatureMap, Identity
from pairlearn.features.restore import restored_map
from pairlearn.restored import restored_array, restored_count, restored_weights
from pairlearn.solvers.closed_form.block_stream import BlockStream, next_double
from pairlearn.solvers.closed_form.mapped_moments import BLOCK, block_of, score_mapped
from pairlearn.solvers.closed_form.stream_model import Finder, MomentModel
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.typing import Vector

#: Examples that the map is fitted to.
FIRST = 4096

#: Returns the map fitted to the first examples.
Fitter = Callable[[Rows, Vector], FeatureMap]
#: Returns the stream of the rows of a fitted map.
Maker = Callable[[FeatureMap], BlockStream]


class MomentStream:
    """The moments of a stream so far, and the model that follows from them.

    `fit_map` fits the map to the first examples, unless `features` is a fitted map; `make` returns
    the stream of mapped rows.
    """

    def __init__(self, fit_map: Fitter, make: Maker, features: FeatureMap | None = None) -> None:
        self._fit_map, self._make = fit_map, make
        # Examples before those of the blocks, or of the kept ones.
        self._n_before = 0
        self._first = _Kept()
        self._blocks = None if features is None else make(features)
        # The model that scores examples until the map is fitted.
        self._young: MomentModel | None = None

    @property
    def n_examples(self) -> int:
        """Examples since the first."""
        return self._n_before + (self._first.n if self._blocks is None else self._blocks.n)

    @property
    def singles(self) -> BlockStream | None:
        """What takes rows one by one; None where rows must be mapped."""
        blocks = self._blocks
        plain = blocks is not None and isinstance(blocks.features, Identity)
        return blocks if plain else None

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now; infinity while everything is remembered."""
        return np.inf if self._blocks is None else self._blocks.half_life

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that its examples had before.

        Examples without weight are as if they had not come, and have no score (NaN).
        """
        if len(weight) and not weight.all():
            scores, kept = np.full(len(y), np.nan), np.flatnonzero(weight)
            scores[kept] = self.learn(rows.take(kept), y[kept], weight[kept])
            return scores
        n = len(y)
        weights = weight if len(weight) else np.ones(n)
        n_first = 0 if self._blocks is not None else min(n, FIRST - self.n_examples)
        before = {**vars(self), "_first": copy.copy(self._first)}
        try:
            scores = self._keep_first(rows, y, weights, n_first) if n_first else np.empty(0)
            if n_first < n:
                assert self._blocks is not None
                rest = rows if not n_first else rows.take(np.arange(n_first, n))
                later = _learn(self._blocks, rest, y[n_first:], weights[n_first:])
                scores = np.concatenate([scores, later])
        except BaseException:
            vars(self).update(before)
            raise
        return scores

    def _keep_first(self, rows: Rows, y: Vector, weight: Vector, n: int) -> Vector:
        """Keep examples until the map can be fitted; then learn them."""
        scores, start = np.zeros(n), 0
        while start < n:
            end = next_double(self.n_examples)
            stop = min(n, start + end - self.n_examples)
            part, now = rows.take(np.arange(start, stop)), slice(start, stop)
            if self._young is not None:
                scores[now] = score_mapped(self._young.features, part, self._young.coef)
            self._first.add(part, y[now], weight[now])
            start = stop
            if self.n_examples == FIRST:
                self._blocks = self._of_first()
                self._first, self._young = _Kept(), None
            elif self.n_examples == end and (found := self.finish()) is not None:
                self._young = found[0]
        return scores

    def _of_first(self) -> BlockStream:
        """Return the stream of the kept examples, with a map that is fitted to them."""
        kept = self._first
        blocks = self._make(self._fit_map(kept.rows, kept.y))
        _learn(blocks, kept.rows, kept.y, kept.weight)
        return blocks

    def finish(self) -> tuple[MomentModel, Finder] | None:
        """Return the model of all examples so far, and what finds scores to decide from.

        None before both classes were seen.
        """
        if self._blocks is not None:
            return self._blocks.model()
        y = self._first.y
        if not (y > 0).any() or not (y < 0).any():
            return None
        return self._of_first().model()

    def restart(self) -> None:
        """Forget all but the latest past."""
        if self._blocks is not None:
            self._n_before += self._blocks.n
            self._blocks.restart()

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on, as plain values and arrays."""
        blocks, young = self._blocks, self._young
        return {
            "n_examples": self.n_examples,
            "first": self._first.state(),
            "features": None if blocks is None else blocks.features.state(),
            "blocks": None if blocks is None else blocks.state(),
            "young": None if young is None else young.coef,
            "young_features": None if young is None else young.features.state(),
        }

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        n = restored_count(state, "n_examples")
        self._first = _Kept.from_state(state["first"], n_features)
        self._blocks = self._young = None
        if state["features"] is not None:
            self._blocks = self._make(_map_of(state["features"], n_features))
            self._blocks.restore(state["blocks"])
            if self._blocks.n > n:
                raise ValueError("the saved blocks have more examples than the stream.")
        elif self._first.n != n:
            raise ValueError(f"{self._first.n} of {n} first examples are saved.")
        self._n_before = 0
        self._n_before = n - self.n_examples
        if state["young"] is not None:
            features = _map_of(state["young_features"], n_features)
            coef = restored_array(state, "young", (features.n_outputs,))
            self._young = MomentModel(features, coef, None, None)


def _learn(blocks: BlockStream, rows: Rows, y: Vector, weight: Vector) -> Vector:
    """Map and learn rows, some at a time; return the scores that they had before."""
    features, n = blocks.features, len(y)
    scores = np.empty(n)
    for start in range(0, n, BLOCK):
        now = slice(start, min(start + BLOCK, n))
        Z = block_of(rows, now.start, now.stop)
        if not (isinstance(features, Identity) and _is_ready(Z)):
            Z = features.transform(Z, dtype=np.float64)
            Z = Z.toarray() if hasattr(Z, "toarray") else Z
        scores[now] = blocks.learn(Z, y[now], weight[now])
    return scores


def _is_ready(X: Any) -> bool:
    """Tell whether rows are an array that compiled loops take as it is."""
    if not isinstance(X, np.ndarray) or X.dtype != np.float64:
        return False
    return X.flags.c_contiguous and X.flags.writeable


def _map_of(state: Any, n_features: int) -> FeatureMap:
    features = restored_map(state)
    if features.n_inputs != n_features:
        raise ValueError(f"the saved map takes {features.n_inputs} features, not {n_features}.")
    return features


class _Kept:
    """Stored examples, in order of arrival."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self.y, self.weight = np.empty(0), np.empty(0)

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def rows(self) -> Rows:
        assert self._rows is not None
        return self._rows

    def add(self, rows: Rows, y: Vector, weight: Vector) -> None:
        if isinstance(rows, DenseRows):
            rows = DenseRows(rows.X.astype(np.float64))
        if self._rows is None:
            self._rows = rows
        elif isinstance(self._rows, CsrRows) != isinstance(rows, CsrRows):
            raise ValueError(
                "the stream was dense and is now sparse, or the other way round; pass chunks of "
                "one kind."
            )
        else:
            self._rows = self._rows.followed_by(rows)  # type: ignore[arg-type]
        self.y = np.concatenate([self.y, y])
        self.weight = np.concatenate([self.weight, weight])

    def state(self) -> dict[str, Any]:
        return {"rows": self._rows, "y": self.y, "weight": self.weight}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int) -> _Kept:
        kept = cls()
        kept.y = restored_array(state, "y", (None,))
        if kept.n >= FIRST or not (np.abs(kept.y) == 1.0).all():
            raise ValueError("the saved labels are not -1 and 1.")
        kept.weight = restored_weights(state, "weight", kept.n)
        rows = state["rows"]
        if kept.n:
            if not isinstance(rows, Rows) or rows.shape != (kept.n, n_features):
                raise ValueError(f"the saved rows are not {kept.n} of {n_features} features.")
            kept._rows = rows.checked()
        return kept
