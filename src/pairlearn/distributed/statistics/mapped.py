# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of rows that a feature map has mapped: curves of features on many machines.

Workers map rows block by block. Mapped rows do not travel, and need the memory of one block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import OfOthers, State, Statistic
from pairlearn.distributed.statistics.chunk import as_chunk, same_width
from pairlearn.estimators.shared.examples import check_known
from pairlearn.estimators.shared.weights import example_weights
from pairlearn.features import FeatureMap
from pairlearn.metrics._inputs import which_positive
from pairlearn.solvers.closed_form.grid import Extents
from pairlearn.solvers.closed_form.mapped_moments import BLOCK, MappedMoments, block_of
from pairlearn.solvers.closed_form.moments import ClassMoments
from pairlearn.solvers.rows import as_rows
from pairlearn.typing import Vector

#: The limit on the numbers of a state, since states travel between machines.
_MOST_NUMBERS = 2e8


class Mapped(OfOthers):
    """A statistic of rows that are mapped first.

    Parameters
    ----------
    statistic : Statistic
        The statistic of the mapped rows.
    features : FeatureMap
        A fitted map, the same for all partitions.

    Examples
    --------
    >>> from pairlearn.distributed import FeatureScales
    >>> from pairlearn.features import Hats
    >>> X = np.arange(6.0)[:, None]
    >>> statistic = Mapped(FeatureScales(), Hats(n_knots=2).fit(X))
    >>> statistic.finish(statistic.partial_state(X)).columns.high
    array([1.])
    """

    def __init__(self, statistic: Statistic, features: FeatureMap) -> None:
        self.statistic, self.features = statistic, features

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of one chunk, mapped block by block."""
        if not X.shape[0]:
            return {}
        rows = as_rows(X)
        same_width(rows.shape[1], int(self.features.n_inputs or 0))
        states = []
        for start in range(0, rows.shape[0], BLOCK):
            now = slice(start, min(start + BLOCK, rows.shape[0]))
            block = self.features.transform(block_of(rows, now.start, now.stop))
            columns = (None if one is None else np.asarray(one)[now] for one in (y, sample_weight))
            states.append(self.statistic.partial_state(block, *columns))
        return self.statistic.merge_all(states)


class MappedLabelMoments(Statistic):
    """Moments of both classes of mapped rows: the square loss on curves of features, exactly.

    Parameters
    ----------
    features : FeatureMap
        A fitted map, the same for all partitions.
    classes : sequence of two labels
        The negative and the positive label.
    extents : Extents, optional
        The extents of all mapped rows, which make the grid of the moments; without them a map
        that bounds its features has the grid of its bounds, and a partition of others its own.

    Examples
    --------
    >>> from pairlearn.features import Hats
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 1, 1, 1, 0, 0])
    >>> statistic = MappedLabelMoments(Hats(n_knots=8).fit(X), (0, 1))
    >>> states = statistic.partial_state(X[:5], y[:5]), statistic.partial_state(X[5:], y[5:])
    >>> statistic.finish(statistic.merge(*states)).n_examples
    8.0
    """

    def __init__(self, features: FeatureMap, classes: Any, extents: Extents | None = None) -> None:
        m = int(features.n_outputs)
        if 2 * m * m > _MOST_NUMBERS:
            raise ValueError(
                f"Moments of {m} mapped features have {2 * m * m:.3g} numbers, more than machines "
                "should exchange; use a map with fewer features."
            )
        self.features, self.classes, self.extents = features, np.asarray(classes), extents

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the moments of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        if chunk.labels is None:
            raise ValueError("Moments of classes need labels; pass y.")
        same_width(chunk.shape[1], int(self.features.n_inputs or 0))
        signs = np.where(which_positive(chunk.labels, self.classes), 1.0, -1.0)
        moments = MappedMoments(self.features, self.extents)
        return _state(moments.add(chunk.rows, signs, example_weight=chunk.weight))

    def combine(self, a: State, b: State) -> State:
        """Merge class by class."""
        return _state(self._moments(a).merge(self._moments(b)))

    def finish(self, state: State) -> MappedMoments:
        """Return the moments."""
        return self._moments(self.needs(state))

    def _moments(self, state: State) -> MappedMoments:
        return MappedMoments.from_state(state, self.features)


#: What is known of rows to be forgotten beside their moments, and how that of two partitions joins.
_FACTS: dict[str, Callable[..., Any]] = {
    "n_rows": np.add,
    "weighed": np.logical_and,
    "zeros": np.logical_or,
    "lightest": np.minimum,
    "heaviest": np.maximum,
}


class MomentsAlike(Statistic):
    """Moments on the grid of other moments, and the number of rows: what is to be forgotten.

    Rows of weight 0 count as little as they did when they were learned.

    Parameters
    ----------
    moments : MappedMoments
        The other moments.
    classes : array-like of shape (2,)
        The labels; the second is the positive one.
    unit : float, default=1.0
        The divisor of weights in the other moments.

    Examples
    --------
    >>> from pairlearn.features import Identity
    >>> from pairlearn.solvers import Grid
    >>> moments = MappedMoments(Identity.of(1), grid=Grid.between([0.0], [8.0]))
    >>> statistic = MomentsAlike(moments, ["no", "yes"])
    >>> states = [statistic.partial_state(np.array([[2.0], [4.0]]), ["yes", "no"])] * 3
    >>> gone, n_rows = statistic.finish(statistic.merge_all(states))
    >>> gone.moments.counts, n_rows
    (array([3., 3.]), 6)
    """

    def __init__(self, moments: MappedMoments, classes: Any, unit: float = 1.0) -> None:
        self._empty, self.classes = moments.alike(), np.asarray(classes)
        self.unit = unit

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the moments of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        zeros = sample_weight is not None and not np.all(sample_weight)
        if chunk is None:
            # Rows without weight are nothing to be forgotten; no rows may be a mistake.
            if y is None or not len(y):
                return {}
            return _with_facts(self._empty.alike(), np.empty(0), given=True, zeros=zeros)
        if chunk.labels is None:
            raise ValueError("Moments of classes need labels; pass y.")
        same_width(chunk.shape[1], int(self._empty.features.n_inputs or 0))
        check_known(chunk.labels, self.classes)
        signs = np.where(chunk.labels == self.classes[1], 1.0, -1.0)
        given = sample_weight is not None
        weight = example_weights(chunk.weight if given else None, None, chunk.labels)
        own = weight / self.unit if len(weight) else None
        moments = self._empty.alike().add(chunk.rows, signs, example_weight=own)
        return _with_facts(moments, chunk.weight, given=given, zeros=zeros)

    def combine(self, a: State, b: State) -> State:
        """Merge class by class."""
        beside = {name: join(a[name], b[name]) for name, join in _FACTS.items()}
        return {**_state(self._moments(a).merge(self._moments(b))), **beside}

    def finish(self, state: State) -> tuple[MappedMoments, int]:
        """Return the moments and the number of rows."""
        return self._moments(self.needs(state)), int(state["n_rows"])

    def _moments(self, state: State) -> MappedMoments:
        found = self._empty.alike()
        found.moments = ClassMoments.from_state({k: v for k, v in state.items() if k not in _FACTS})
        return found


def _state(moments: MappedMoments) -> dict[str, NDArray[Any]]:
    """Return the arrays of moments, without the map that all partitions know."""
    state = moments.state()
    del state["features"]
    return state


def _with_facts(moments: MappedMoments, weight: Vector, *, given: bool, zeros: bool) -> State:
    """Return moments to be forgotten with facts about their rows, of which these are the weights.

    `given` tells whether the weights are those of the rows, or 1 because there were none, `zeros`
    whether other rows had weight 0.
    """
    facts = {
        "n_rows": np.array(len(weight)),
        "weighed": np.array(given),
        "zeros": np.array(zeros),
        "lightest": np.array(weight.min(initial=np.inf)),
        "heaviest": np.array(weight.max(initial=0.0)),
    }
    return {**_state(moments), **facts}
