# SPDX-License-Identifier: BSD-3-Clause
r"""Piecewise linear functions of each feature: additive models that can be drawn.

For the knots t_0 < ... < t_K of a feature, there are the ramps

        r_k(x) = (x - t_(k-1)) / (t_k - t_(k-1)), clipped to [0, 1],    k = 1, ..., K,

and the hats 1 - r_1, r_1 - r_2, ..., r_K, which add up to 1; at most two are not zero. Both span
the continuous functions that are linear between knots and constant beyond them (ramps without the
constant, which cancels in pairs). The coefficient of a ramp is the gain of the function from one
knot to the next. So a ridge on ramps favours flat functions, and the function is increasing exactly
if no coefficient is negative.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.features.base import Bounds, FeatureMap, blocks_of
from pairlearn.features.columns import columns_of, sample_of, weighed_columns, weighed_knots
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_flag

#: Mapped numbers that are made at once: they stay in a near cache.
_AT_ONCE = 12_000

#: Hats by name have at most this many mapped features.
_NAMED_OUTPUTS = 1024


@dataclass(frozen=True)
class Hats(FeatureMap):
    """Piecewise linear in each feature, with knots at quantiles of the training data.

    Parameters
    ----------
    n_knots : int, default=16
        Number of knots per feature, at evenly spaced order statistics from the smallest number to
        the largest. A feature with at most this many levels has a knot at each level.
    knots : sequence of sequences of float, optional
        The knots of each feature, increasing. They replace `n_knots` and quantiles.
    cumulative : bool, default=True
        Whether a feature of K knots becomes K - 1 ramps, sums of hats, which suit a ridge and
        monotone constraints, or K hats, whose norm is at most 1 for each feature.
    monotone : mapping or None, default=None
        Features, by name or number, whose function must increase (1) or decrease (-1):
        ``{"age": 1}``. `AUCClassifier` solves it by class moments; others refuse it.

    Notes
    -----
    A feature with one knot is constant and has no ramp; its hat is 1. The map does not depend on
    the units of a feature. Time and memory are linear, and sparse blocks need no dense copy. A
    weight counts an example several times; `fit` of an estimator passes on `sample_weight`. A
    stream does not, since one heavy example would draw all knots to itself.

    Examples
    --------
    >>> X = np.arange(5.0)[:, None]
    >>> Hats(n_knots=3).fit(X).transform([[1.0], [7.0]])
    array([[0.5, 0. ],
           [1. , 1. ]])
    >>> Hats(n_knots=3, cumulative=False).fit(X).transform([[1.0], [7.0]])
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    n_knots: int = 16
    knots: tuple[tuple[float, ...], ...] | None = None
    cumulative: bool = True
    monotone: Mapping[str | int, int] | None = field(default=None, hash=False)

    takes_weights: ClassVar[bool] = True

    def sized(self, n_examples: int, n_features: int, n_rarer: int) -> FeatureMap:
        """Return hats of fewer knots for many features."""
        return Hats(n_knots=int(np.clip(_NAMED_OUTPUTS // n_features + 1, 2, 16)))

    def __post_init__(self) -> None:
        check_count("n_knots", self.n_knots, minimum=2)
        if self.monotone is not None and not isinstance(self.monotone, Mapping):
            raise TypeError(
                f"monotone must name features, as in {{'age': 1}} or {{0: -1}}, got "
                f"{self.monotone!r}."
            )
        for key, sign in (self.monotone or {}).items():
            if sign not in (-1, 0, 1):
                raise ValueError(f"monotone must be 1, -1 or 0 for feature {key!r}, got {sign!r}.")
        if not check_flag("cumulative", self.cumulative) and self.monotone:
            raise ValueError("monotone needs cumulative=True: ramps, whose signs say it.")
        if self.knots is not None:
            given = tuple(tuple(float(v) for v in own) for own in self.knots)
            for k, own in enumerate(given):
                if not own or not np.isfinite(own).all() or (np.diff(own) <= 0).any():
                    raise ValueError(
                        f"The knots of feature {k} must be finite and increasing, got {own}."
                    )
            object.__setattr__(self, "knots", given)

    @property
    def constrained(self) -> bool:  # type: ignore[override]
        """Whether a function must be monotone."""
        return bool(self.monotone)

    def signs(self, names: Any = None) -> NDArray[np.int64] | None:
        """Return the sign of each coefficient, 0 for free ones; None if nothing is monotone."""
        if not self.monotone:
            return None
        self.check_fitted()
        known = {} if names is None else {name: k for k, name in enumerate(names)}
        signs = np.zeros(self.n_inputs, dtype=np.int64)
        for key, sign in self.monotone.items():
            place = known.get(key, key)
            if isinstance(place, bool) or not isinstance(place, (int, np.integer)):
                raise ValueError(f"monotone names the feature {key!r}, which X does not have.")
            if not 0 <= place < self.n_inputs:
                raise ValueError(
                    f"monotone names feature {key}, but X has features 0 to {self.n_inputs - 1}."
                )
            signs[place] = sign
        return signs[self.owners]

    @classmethod
    def between(
        cls,
        lower: Sequence[float] | Vector,
        upper: Sequence[float] | Vector,
        *,
        n_knots: int = 16,
        cumulative: bool = True,
    ) -> Self:
        """Return fitted hats with evenly spaced knots between public bounds of each feature.

        Parameters
        ----------
        lower, upper : sequence of float
            The bounds; nothing is read from data.
        n_knots : int, default=16
            Number of knots per feature.
        cumulative : bool, default=True
            Ramps or hats.

        Returns
        -------
        Hats
            A fitted map.

        Examples
        --------
        >>> Hats.between([0.0], [2.0], n_knots=3).transform([[0.5]])
        array([[0.5, 0. ]])
        """
        check_count("n_knots", n_knots, minimum=2)
        if len(lower) != len(upper) or not len(lower):
            raise ValueError(f"Hats needs as many lower as upper bounds, got {lower} and {upper}.")
        knots = tuple(
            tuple(np.linspace(float(a), float(b), n_knots))
            for a, b in zip(lower, upper, strict=True)
        )
        return cls(n_knots, knots, cumulative).fit(np.zeros((1, len(knots))))

    def learn(self, X: Any, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return the knots of all features in one array, and the start of each feature."""
        if self.knots is not None:
            if len(self.knots) != X.shape[1]:
                raise ValueError(f"{len(self.knots)} features have knots, X has {X.shape[1]}.")
            return _joined([np.array(own) for own in self.knots])
        return _joined([column.knots(self.n_knots) for column in columns_of(sample_of(X, rng))])

    def learn_weighted(
        self, X: Any, weight: Vector, rng: np.random.Generator
    ) -> dict[str, NDArray[Any]]:
        """Return the knots of rows that occur as often as they weigh."""
        if self.knots is not None or (weight == 1.0).all():
            return self.learn(X, rng)
        return _joined([weighed_knots(*own, self.n_knots) for own in weighed_columns(X, weight)])

    def check_learned(self, learned: Mapping[str, NDArray[Any]], n_inputs: int) -> None:
        """Raise unless there are increasing knots for each feature."""
        knots, starts = learned.get("knots"), learned.get("starts")
        if (
            knots is None
            or starts is None
            or knots.dtype != np.float64
            or starts.dtype != np.int64
            or starts.shape != (n_inputs + 1,)
            or knots.ndim != 1
            or starts[0] != 0
            or starts[-1] != len(knots)
            or (np.diff(starts) < 1).any()
        ):
            raise ValueError(f"the saved knots are not those of {n_inputs} features.")
        if any((np.diff(knots[a:b]) <= 0).any() for a, b in itertools.pairwise(starts)):
            raise ValueError("the saved knots of a feature are not increasing.")

    # ------------------------------------------------------------------------------ mapping

    def _width(self, example: Any) -> int:
        knots, d = len(self.learned["knots"]), self.n_inputs
        return knots - d if self.cumulative else knots

    @property
    def owners(self) -> NDArray[np.int64]:
        """The feature of each column of a mapped row."""
        counts = np.diff(self.learned["starts"]) - int(self.cumulative)
        return np.repeat(np.arange(self.n_inputs), counts)

    def knots_of(self, feature: int) -> Vector:
        """Return the knots of a feature."""
        starts = self.learned["starts"]
        return np.asarray(self.learned["knots"][starts[feature] : starts[feature + 1]])

    def shape_of(self, feature: int, coef: Vector) -> Vector:
        """Return the function of a feature at its knots, given the coefficients of all columns.

        Parameters
        ----------
        feature : int
            The number of the feature.
        coef : ndarray of shape (n_outputs,)
            The coefficients of the columns of mapped rows.

        Returns
        -------
        ndarray
            One value for each of `knots_of(feature)`; ramps start from zero at the first knot.
        """
        own = coef[self.owners == feature]
        return np.concatenate([[0.0], np.cumsum(own)]) if self.cumulative else np.asarray(own)

    def _ramps(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return the starts and slopes of the rising and falling ramps of each column.

        A ramp that starts at minus infinity is 1, and one that starts at infinity is 0: the first
        hat of a feature only falls, the last hat only rises, and a plain ramp never falls.
        """
        knots, starts = self.learned["knots"], self.learned["starts"]
        # A gap too small to have an inverse is a step: the ramp is still 0 or 1.
        steep = 1.0 / np.maximum(np.append(np.diff(knots), 1.0), np.finfo(np.float64).tiny)
        begins = np.where(_is_at(starts[1:] - 1, len(knots)), np.inf, knots)
        steep[starts[1:] - 1] = 1.0
        if self.cumulative:
            rising = np.isfinite(begins)
            begins, steep = begins[rising], steep[rising]
            return begins, steep, np.full_like(begins, np.inf), np.ones_like(steep)
        before = np.append(-np.inf, begins[:-1])
        before[starts[:-1]] = -np.inf
        steep_before = np.append(1.0, steep[:-1])
        steep_before[starts[:-1]] = 1.0
        return before, steep_before, begins, steep

    def mapped(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the mapped rows."""
        out = np.empty((len(X), self.n_outputs))
        self.fill(X, out)
        return out

    def fill(self, X: Any, out: NDArray[Any]) -> None:
        """Write ramps or hats into `out`."""
        ramps = self._ramps()
        if not hasattr(X, "tocsc"):
            for now in blocks_of(len(X), max(1, _AT_ONCE // max(1, self.n_outputs))):
                x = X[now].astype(np.float64, copy=False)[:, self.owners]
                out[now] = _heights(x, *ramps)
            return
        out[:] = self.mapped(np.zeros((1, self.n_inputs)))
        columns = X.tocsc()
        for k, own in enumerate(self._places()):
            stored = slice(columns.indptr[k], columns.indptr[k + 1])
            x = columns.data[stored, np.newaxis].astype(np.float64)
            out[columns.indices[stored], own] = _heights(x, *(part[own] for part in ramps))

    def _places(self) -> list[slice]:
        """Return the mapped columns of each feature."""
        ends = self.learned["starts"] - int(self.cumulative) * np.arange(self.n_inputs + 1)
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    def bounds(self) -> Bounds:
        """Return 0, 1 and the norm: for hats, at most the square root of the number of features."""
        self.check_fitted()
        count = self.n_outputs if self.cumulative else self.n_inputs
        return Bounds(0.0, 1.0, float(np.sqrt(count)))

    def onnx(self, graph: Any, rows: str) -> str:
        """Add gather, subtract, multiply and clip; hats are differences of ramps."""
        begins, steeps, ends, falls = self._ramps()
        gathered = graph.node("Gather", [rows, graph.constant(self.owners)], axis=1)
        up = _ramp_onnx(graph, gathered, begins, steeps)
        if self.cumulative:
            return up
        down = _ramp_onnx(graph, gathered, ends, falls)
        hats: str = graph.node("Sub", [up, down])
        return hats


def _heights(x: Vector, begins: Vector, steeps: Vector, ends: Vector, falls: Vector) -> Vector:
    """Return ramps that begin at `begins`, less those that begin at `ends`."""
    up = (x - begins) * steeps
    np.clip(up, 0.0, 1.0, out=up)
    if np.isfinite(ends).any():
        up -= np.clip((x - ends) * falls, 0.0, 1.0)
    return np.asarray(up)


def _joined(knots: list[Vector]) -> dict[str, NDArray[Any]]:
    starts = np.concatenate([[0], np.cumsum([len(own) for own in knots])])
    return {"knots": np.concatenate(knots), "starts": starts.astype(np.int64)}


def _is_at(places: NDArray[np.int64], n: int) -> Mask:
    found = np.zeros(n, dtype=bool)
    found[places] = True
    return found


def _ramp_onnx(graph: Any, gathered: str, begins: Vector, steeps: Vector) -> str:
    # Infinite constants are replaced by numbers that no feature reaches.
    largest = np.finfo(np.float64).max / 4
    at = graph.constant(np.clip(begins, -largest, largest))
    steep = graph.node("Mul", [graph.node("Sub", [gathered, at]), graph.constant(steeps)])
    raised = graph.node("Max", [steep, graph.constant(np.array(0.0))])
    ramp: str = graph.node("Min", [raised, graph.constant(np.array(1.0))])
    return ramp
