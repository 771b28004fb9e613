# SPDX-License-Identifier: BSD-3-Clause
r"""Moments of each class: the square loss exactly, and the scatter of similar and dissimilar pairs.

Let n_c, m_c and S_c be the weight, the mean and the scatter of class c. Summed over ordered pairs
of equal labels, (x - x')(x - x')' is 2 sum_c n_c S_c. Over all pairs it is 2 n S, with n and S of
all examples together. The difference of both is the sum over pairs of different labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.cluster.rows import Chunk, as_chunk, comparable, labels_of, same_width
from pairlearn.cluster.statistic import State, Statistic
from pairlearn.estimators.shared.examples import two_classes
from pairlearn.solvers.closed_form.grid import FINE, Extents, Grid
from pairlearn.solvers.closed_form.table import MomentValues, Table
from pairlearn.solvers.rows import as_rows
from pairlearn.typing import Vector

#: The limit on the numbers of a state, since states travel between machines.
_MOST_NUMBERS = 2e8
#: The approximate number of values that are multiplied at once.
_NUMBERS = 131_072
#: Why examples are not taken back.
_NOT_AMONG = (
    "These examples are not all among those of the state; take back only examples that were added, "
    "with their labels and weights."
)


@dataclass(frozen=True, eq=False)
class LabelledMoments:
    """Weights, means and scatter matrices of the classes."""

    #: Labels, sorted.
    classes: NDArray[Any]
    #: Numbers of examples.
    n_examples: NDArray[np.int64]
    #: The exact sums of the classes.
    table: Table

    @property
    def values(self) -> MomentValues:
        """Sums of weights, means and covariances of all classes."""
        return self.table.values()

    @property
    def counts(self) -> Vector:
        """Sums of weights."""
        return self.values.counts

    @property
    def means(self) -> Vector:
        """Means of the classes."""
        return self.values.means

    @property
    def scatters(self) -> Vector:
        """Sums of (x - mean)(x - mean)' of the classes."""
        return self.values.scatters

    def two_classes(self) -> MomentValues:
        """Return the moments of the two classes, the larger label being positive."""
        two_classes(self.classes)
        return self.table[::-1].values()


class ColumnExtents(Statistic):
    """How far the columns reach, which makes the grid of exact moments.

    Examples
    --------
    >>> statistic = ColumnExtents()
    >>> states = [statistic.partial_state(np.array([[value]])) for value in (3.0, -1.0)]
    >>> statistic.finish(statistic.merge(*states)).high
    array([3.])
    """

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the extents of one chunk; `y` is ignored."""
        chunk = as_chunk(X, None, sample_weight)
        return {} if chunk is None else _extents_state(_extents(chunk))

    def combine(self, a: State, b: State) -> State:
        """Take the wider extents of each column."""
        same_width(len(a["low"]), len(b["low"]))
        return _extents_state(self.finish(a).merge(self.finish(b)))

    def finish(self, state: State) -> Extents:
        """Return the extents of all rows."""
        own = self.needs(state)
        plain: dict[str, Any] = {k: v if v.ndim else v.item() for k, v in own.items()}
        return Extents(**plain)


class LabelMoments(Statistic):
    """Moments of each class that occurs, whatever its label, as exact sums on a grid.

    Parameters
    ----------
    max_classes : int, default=2
        The limit on the number of labels.
    grid : Grid or callable, optional
        The grid that values are rounded to, the same for all partitions: ``Grid.of`` the result of
        `ColumnExtents`, or a function that returns it for a number of columns. Then the partitions
        do not matter, bit for bit. By default each partition has a grid of its own, with thirteen
        digits; merging their states rounds nothing.

    Examples
    --------
    >>> statistic = LabelMoments()
    >>> X, y = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array(["no", "no", "yes", "yes"])
    >>> state = statistic.merge(
    ...     statistic.partial_state(X[:3], y[:3]), statistic.partial_state(X[3:], y[3:])
    ... )
    >>> moments = statistic.finish(state)
    >>> moments.classes, moments.two_classes().solve().round(4)
    (array(['no', 'yes'], dtype='<U3'), array([0.2609]))
    >>> statistic = LabelMoments(grid=Grid.between([0.0], [8.0]))
    >>> state, gone = (statistic.partial_state(X[:k], y[:k]) for k in (4, 1))
    >>> statistic.finish(statistic.without(state, gone)).means[:, 0]
    array([1. , 3.5])
    """

    def __init__(
        self, max_classes: int = 2, grid: Grid | Callable[[int], Grid | None] | None = None
    ) -> None:
        self.max_classes, self.grid = max_classes, grid

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the moments of one chunk; `y` holds its labels."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        labels_of(chunk, "A table of moments of classes")
        classes, code = chunk.coded
        self._check_classes(classes)
        d = chunk.shape[1]
        if len(classes) * d * d > _MOST_NUMBERS:
            raise ValueError(
                f"Moments of {len(classes)} classes with {d} features have "
                f"{len(classes) * d * d:.3g} numbers, more than machines should exchange; choose "
                "fewer features."
            )
        grid, k = self.grid, len(classes)
        if callable(grid):
            grid = grid(d)
        if grid is None:
            grid = Grid.of(_extents(chunk), bits=FINE)
        same_width(d, grid.n_features)
        table = Table.none(d, k, grid=grid)
        given = chunk.given_weight
        if given is not None:
            grid.check_weights(given)
        for now, block in chunk.blocks(max(_NUMBERS // d, 4 * d)):
            weight = None if given is None else given[now]
            table = table.plus(as_rows(block, finite=True).matrix, code[now], weight)
        return {
            "classes": classes,
            "n_examples": np.bincount(code, minlength=k),
            **table.state(),
        }

    def combine(self, a: State, b: State) -> State:
        """Merge class by class."""
        return self._joined(a, b, 1)

    def without(self, state: State, gone: State) -> State:
        """Return the state without the examples of another one, as if they had never come."""
        if not gone:
            return state
        if not state:
            raise ValueError(_NOT_AMONG)
        return self._joined(state, gone, -1)

    def _joined(self, first: State, second: State, sign: int) -> State:
        """Return the sum of two states, or the first without the second."""
        same_width(len(first["exponents"]), len(second["exponents"]))
        comparable(first["classes"], second["classes"])
        classes = np.unique(np.concatenate([first["classes"], second["classes"]]))
        self._check_classes(classes)
        ours, theirs = (
            in_order(Table.from_state(one), one["classes"], classes) for one in (first, second)
        )
        table = ours + theirs if sign > 0 else ours - theirs
        counts = np.zeros(len(classes), dtype=np.int64)
        for one, way in ((first, 1), (second, sign)):
            counts[np.searchsorted(classes, one["classes"])] += way * one["n_examples"]
        empty = (table.totals == 0).astype(bool)
        if sign < 0 and not (
            table.is_possible() and (counts >= 0).all() and empty[counts == 0].all()
        ):
            raise ValueError(_NOT_AMONG)
        left = np.flatnonzero(counts)
        if not len(left):
            return {}
        return {"classes": classes[left], "n_examples": counts[left], **table[left].state()}

    def finish(self, state: State) -> LabelledMoments:
        """Return the moments."""
        state = self.needs(state)
        return LabelledMoments(state["classes"], state["n_examples"], Table.from_state(state))

    def _check_classes(self, classes: NDArray[Any]) -> None:
        if len(classes) > self.max_classes:
            shown = ", ".join(map(repr, classes[:5].tolist()))
            raise ValueError(
                f"y has {len(classes)} classes ({shown}, ...), at most {self.max_classes} are "
                "expected; check the column of labels."
            )


def in_order(table: Table, labels: Iterable[Any], wanted: NDArray[Any]) -> Table:
    """Return the exact sums of labels in another order; a label without rows has zeros."""
    sums = np.zeros((len(wanted), *table.sums.shape[1:]), dtype=object)
    places = {label: k for k, label in enumerate(wanted.tolist())}
    for label, own in zip(np.asarray(labels).tolist(), table.sums, strict=True):
        sums[places[label]] = own
    return Table(sums, table.grid)


def _extents(chunk: Chunk) -> Extents:
    blocks = (as_rows(block, finite=True) for _, block in chunk.blocks())
    found = Extents.merge_all((Extents.of(rows) for rows in blocks), chunk.shape[1])
    return found.with_weights(chunk.given_weight)


def _extents_state(found: Extents) -> State:
    return {name: np.asarray(value) for name, value in vars(found).items()}
