# SPDX-License-Identifier: BSD-3-Clause
"""A stream learned by class moments of mapped rows: one pass gives what `fit` would give.

The first examples are kept until the map is fitted to them; then only their moments remain. A map
that is fitted already needs no examples. Until the map is fitted, a model is fitted to the kept
examples whenever it is asked for. Some examples are held out for good, so that the ridge is chosen
without a second pass; the final coefficients come from the moments of all.

Coefficients cost a solution of m x m equations for each ridge, as much as the moments of some 2 m
examples. They are found when the model is asked for. For progressive scores they are also found
whenever the examples have grown enough, which at most doubles the cost of a stream; before the map
is fitted, whenever the number of examples has doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pairlearn.estimators.shared.judged_maps import ridges_for
from pairlearn.features import FeatureMap
from pairlearn.features.restore import restored_map
from pairlearn.metrics import roc_auc
from pairlearn.restored import restored_array, restored_count
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments, score_mapped
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.typing import Mask, Vector

#: Examples that the map is fitted to.
FIRST = 4096
#: The most examples that are held out: with even classes the error of an AUC is then below .01.
_HELD = 4096
#: One example in this many is held out, as with validation_fraction=0.2.
_EVERY = 5
#: Coefficients for progressive scores are found anew when the examples grew by this share...
_GROWTH = 0.125
#: ...and by this many for each mapped feature: a solution then costs no more than their moments.
_PER_FEATURE = 2

#: Returns the map fitted to the first examples.
Fitter = Callable[[Rows, Vector], FeatureMap]


class MomentModel(NamedTuple):
    """Coefficients, the map that they belong to, and how the ridge was chosen."""

    features: FeatureMap
    coef: Vector
    ridge: float | None
    auc: float | None


class MomentStream:
    """The moments of a stream so far, and the model that follows from them.

    `fit_map` fits the map to the first examples, unless `features` is a fitted map. Without a
    `ridge` the best by held-out AUC is taken; if `scaled`, it refers to features of mean variance
    1. `margin` is that of the square loss.
    """

    def __init__(
        self,
        fit_map: Fitter,
        *,
        features: FeatureMap | None = None,
        ridge: float | None = None,
        margin: float = 1.0,
        scaled: bool = True,
    ) -> None:
        self._fit_map, self._ridge, self._margin, self._scaled = fit_map, ridge, margin, scaled
        self.n_examples = 0
        self._first = _Kept()
        self._held = _Kept()
        self._train: MappedMoments | None = None
        self._apart: MappedMoments | None = None
        if features is not None:
            self._freeze(features)
        self._model: MomentModel | None = None
        self._solved_at = 0

    def _freeze(self, features: FeatureMap) -> None:
        self._train, self._apart = MappedMoments(features), MappedMoments(features)

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that its examples had before."""
        self._refresh()
        scores = self._scores(rows)
        n = len(y)
        places = np.arange(self.n_examples, self.n_examples + n)
        held = (places % _EVERY == _EVERY - 1) & (places // _EVERY < _HELD)
        weights = weight if len(weight) else np.ones(n)
        if self._train is not None:
            self._add(rows, y, weights, held)
        else:
            self._first.add(rows, y, weights, held)
            if self._first.n >= FIRST:
                kept = self._first
                self._freeze(self._fit_map(kept.rows, kept.y))
                self._add(kept.rows, kept.y, kept.weight, kept.held)
                self._first = _Kept()
        index = np.flatnonzero(held)
        if len(index):
            self._held.add(rows.take(index), y[index], weights[index], held[index])
        self.n_examples += n
        return scores

    def _add(self, rows: Rows, y: Vector, weight: Vector, held: Mask) -> None:
        """Add examples to the moments for training or, where `held`, to those held out."""
        assert self._train is not None
        assert self._apart is not None
        features = self._train.features
        if features.bounds().is_finite:
            _add_apart((self._train, self._apart), rows, y, weight, held)
            return
        # Squares of unbounded features may overflow: a chunk is added as a whole or not at all.
        fresh = MappedMoments(features), MappedMoments(features)
        added = _add_apart(fresh, rows, y, weight, held)
        for moments, new, is_added in zip((self._train, self._apart), fresh, added, strict=True):
            if is_added:
                moments.merge(new)

    def _refresh(self) -> None:
        fresh = self.n_examples - self._solved_at
        if self._train is None or self._model is None:
            due = fresh >= self._solved_at
        else:
            least = _PER_FEATURE * self._train.features.n_outputs
            due = fresh >= max(_GROWTH * self._solved_at, least)
        if due:
            self._solve()

    def _scores(self, rows: Rows) -> Vector:
        if self._model is None:
            return np.zeros(rows.shape[0])
        return score_mapped(self._model.features, rows, self._model.coef)

    def finish(self) -> MomentModel | None:
        """Return the model of all examples so far; None before both classes were seen."""
        if self._model is None or self._solved_at != self.n_examples:
            self._solve()
        return self._model

    def _solve(self) -> None:
        """Find the model of all examples so far; keep the old one if a class is missing."""
        train, apart = self._train, self._apart
        if train is None:
            kept = self._first
            if not kept.n or not (kept.y > 0).any() or not (kept.y < 0).any():
                return
            features = self._fit_map(kept.rows, kept.y)
            train, apart = MappedMoments(features), MappedMoments(features)
            _add_apart((train, apart), kept.rows, kept.y, kept.weight, kept.held)
        assert apart is not None
        total = MappedMoments(train.features).merge(train).merge(apart)
        if not total.moments.counts.all():
            return
        ridge, auc = self._ridge, None
        if ridge is None:
            ridge, auc = self._chosen_ridge(train)
        problem = total.problem(scaled=self._scaled)
        coef = problem.solve(ridge, margin=self._margin)
        self._model = MomentModel(train.features, coef, ridge, auc)
        self._solved_at = self.n_examples

    def _chosen_ridge(self, train: MappedMoments) -> tuple[float, float | None]:
        """Return the ridge with the best AUC on held-out examples."""
        ridges = ridges_for(train.features)
        y = self._held.y
        if not train.moments.counts.all() or not (y > 0).any() or not (y < 0).any():
            return ridges[1], None
        problem = train.problem(scaled=self._scaled)
        W = np.stack([problem.solve(ridge) for ridge in ridges], axis=1)
        scores = score_mapped(train.features, self._held.rows, W)
        aucs = [roc_auc(y, scores[:, k]) for k in range(len(ridges))]
        best = int(np.argmax(aucs))
        return ridges[best], float(aucs[best])

    def window(self) -> tuple[Vector, Mask, Vector]:
        """Return scores, labels and weights of held-out examples, to decide from."""
        if not self._held.n:
            return np.empty(0), np.empty(0, dtype=bool), np.empty(0)
        return self._scores(self._held.rows), self._held.y > 0, self._held.weight

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on, as plain values and arrays."""
        return {
            "n_examples": self.n_examples,
            "solved_at": self._solved_at,
            "first": self._first.state(),
            "held": self._held.state(),
            "features": None if self._train is None else self._train.features.state(),
            "train": None if self._train is None else _without_map(self._train),
            "apart": None if self._apart is None else _without_map(self._apart),
            "coef": None if self._model is None else self._model.coef,
            "model_features": None if self._model is None else self._model.features.state(),
            "ridge": None if self._model is None else self._model.ridge,
            "auc": None if self._model is None else self._model.auc,
        }

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        self.n_examples = restored_count(state, "n_examples")
        self._solved_at = restored_count(state, "solved_at", maximum=self.n_examples)
        self._first = _Kept.from_state(state["first"], n_features)
        self._held = _Kept.from_state(state["held"], n_features)
        self._train = self._apart = self._model = None
        if state["features"] is not None:
            features = _map_of(state["features"], n_features)
            self._train = MappedMoments.from_state(state["train"], features)
            self._apart = MappedMoments.from_state(state["apart"], features)
        if state["coef"] is not None:
            if self._train is not None and self._solved_at >= FIRST:
                features = self._train.features
            else:
                features = _map_of(state["model_features"], n_features)
            coef = restored_array(state, "coef", (features.n_outputs,))
            self._model = MomentModel(features, coef, state["ridge"], state["auc"])


def _add_apart(
    both: tuple[MappedMoments, MappedMoments], rows: Rows, y: Vector, weight: Vector, held: Mask
) -> list[bool]:
    """Add examples to the moments for training and to those held out; tell which had any."""
    parts = np.flatnonzero(~held), np.flatnonzero(held)
    for moments, index in zip(both, parts, strict=True):
        if len(index):
            moments.add(rows.take(index), y[index], example_weight=weight[index])
    return [len(index) > 0 for index in parts]


def _map_of(state: Any, n_features: int) -> FeatureMap:
    features = restored_map(state)
    if features.n_inputs != n_features:
        raise ValueError(f"the saved map takes {features.n_inputs} features, not {n_features}.")
    return features


def _without_map(moments: MappedMoments) -> dict[str, Any]:
    state = moments.state()
    del state["features"]
    return state


class _Kept:
    """Stored examples, in order of arrival."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self.y, self.weight = np.empty(0), np.empty(0)
        self.held = np.empty(0, dtype=bool)

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def rows(self) -> Rows:
        assert self._rows is not None
        return self._rows

    def add(self, rows: Rows, y: Vector, weight: Vector, held: Mask) -> None:
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
        self.held = np.concatenate([self.held, held])

    def state(self) -> dict[str, Any]:
        return {"rows": self._rows, "y": self.y, "weight": self.weight, "held": self.held}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int) -> _Kept:
        kept = cls()
        kept.y = restored_array(state, "y", (None,))
        if kept.n > max(FIRST, _HELD) + 2**24 or not (np.abs(kept.y) == 1.0).all():
            raise ValueError("the saved labels are not -1 and 1.")
        kept.weight = restored_array(state, "weight", (kept.n,))
        kept.held = restored_array(state, "held", (kept.n,), ("bool",))
        rows = state["rows"]
        if kept.n:
            if not isinstance(rows, Rows) or rows.shape != (kept.n, n_features):
                raise ValueError(f"the saved rows are not {kept.n} of {n_features} features.")
            kept._rows = rows.checked()
        return kept
