# SPDX-License-Identifier: BSD-3-Clause
"""What a learner of named examples is made of: columns of names, probabilities, a checked state.

`NamedColumns` gives each name a column and makes rows of dicts, whose names may come and go.
`log_odds_line` describes the scores of each class by number, mean and common variance: the
logarithm of the odds of two normal classes of one variance is linear in the score. `check_state`
looks at a saved learner before anything of its size is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import repeat
from operator import add, itemgetter, mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.restored import check_sane, restored_array, restored_count, restored_number
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.streams.dict_rows import DictScores, can_read_dicts
from pairlearn.streams.examples import LARGEST
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

#: With at most this many features, examples are rows of a dense array; beyond that, sparse rows.
_DENSE_UP_TO = 512
#: Layouts of an example that are remembered.
_LAYOUTS = 1024
_NONE = np.empty(0, dtype=np.int32)


class NamedColumns:
    """A column for each name, in order of appearance.

    Rows are at least `width` wide.
    """

    def __init__(self, names: Sequence[Any] = (), width: int = 1) -> None:
        #: The column of each name.
        self.index: dict[Any, int] = {name: k for k, name in enumerate(names)}
        self._layouts: dict[tuple[Any, ...], NDArray[np.int32]] = {}
        # Names that are known to have the order of the columns.
        self._ordered: tuple[Any, ...] | None = None
        self._set_width(width)

    @property
    def names(self) -> tuple[Any, ...]:
        """The names, by column."""
        return tuple(self.index)

    @property
    def is_dense(self) -> bool:
        """Whether rows are those of a dense array."""
        return self.width <= _DENSE_UP_TO

    def rows(self, examples: list[dict[Any, float]], flat: Vector) -> Rows:
        """Return examples as rows; `flat` has all of their values one after the other."""
        columns = np.concatenate([_NONE, *map(self._layout, map(tuple, examples))])
        counts = np.array(list(map(len, examples)), dtype=np.intp)
        self._make_room()
        if not self.is_dense:
            return CsrRows(flat, columns, np.concatenate([[0], np.cumsum(counts)]), self.width)
        X = np.zeros((len(examples), self.width))
        X[np.repeat(np.arange(len(examples)), counts), columns] = flat
        return DenseRows(X)

    def rows_alike(self, names: tuple[Any, ...], m: int, flat: Vector) -> Rows:
        """Return m examples with the same names as rows."""
        if names is self._ordered:
            return DenseRows(flat.reshape(m, self.width))
        layout, n = self._layout(names), len(names)
        self._make_room()
        if not self.is_dense:
            return CsrRows(flat, np.tile(layout, m), n * np.arange(m + 1), self.width)
        if n == self.width and self._is_in_order(names, layout):
            return DenseRows(flat.reshape(m, n))
        X = np.zeros((m, self.width))
        X[:, layout] = flat.reshape(m, n)
        return DenseRows(X)

    def _is_in_order(self, names: tuple[Any, ...], layout: NDArray[np.int32]) -> bool:
        """Tell whether names have the order of the columns; the last answer is kept."""
        if names is not self._ordered:
            if not (layout == self._in_order).all():
                return False
            self._ordered = names
        return True

    def _layout(self, names: tuple[Any, ...]) -> NDArray[np.int32]:
        found = self._layouts.get(names)
        if found is None:
            index = self.index
            columns = [index.setdefault(name, len(index)) for name in names]
            found = np.array(columns, dtype=np.int32)
            if len(self._layouts) >= _LAYOUTS:
                # where names vary freely there would be one for each example
                self._layouts.clear()
            self._layouts[names] = found
        return found

    def _make_room(self) -> None:
        needed = len(self.index)
        if needed > self.width:
            # Dense rows are as wide as they must be; sparse rows do not mind.
            self._set_width(needed if needed <= _DENSE_UP_TO else 1 << needed.bit_length())

    def _set_width(self, width: int) -> None:
        #: How wide rows are.
        self.width = width
        self._in_order = np.arange(width, dtype=np.int32)
        self._ordered = None


def widened(rows: Rows, width: int) -> Rows:
    """Return dense or sparse rows, as their number of columns asks for."""
    if isinstance(rows, CsrRows):
        return CsrRows(rows.data, rows.indices, rows.indptr, width)
    if width <= _DENSE_UP_TO:
        return DenseRows(np.pad(rows.X, ((0, 0), (0, width - rows.X.shape[1]))))
    kept = rows.X != 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return CsrRows(rows.X[kept], np.nonzero(kept)[1].astype(np.int32), indptr, width)


def log_odds_line(sums: Vector) -> tuple[float, float]:
    """Return slope and intercept of the logarithm of the odds, by the score."""
    (n0, s0, q0), (n1, s1, q1) = sums.tolist()
    prior = math.log((n1 + 1.0) / (n0 + 1.0))
    if n0 <= 0 or n1 <= 0:
        return 0.0, prior
    low, high = s0 / n0, s1 / n1
    # a product that overflows is infinite, where a power would raise
    variance = max(q0 - n0 * (low * low) + q1 - n1 * (high * high), 0.0) / (n0 + n1)
    gap = high - low
    if gap <= 0:
        return 0.0, prior
    # With hardly any spread the odds would be infinite.
    spread = max(variance, 1e-3 * gap * gap)
    slope = gap / spread if spread > 0 else math.inf
    intercept = prior - slope * (high + low) / 2
    # scores so small that their squares are nothing tell nothing
    return (slope, intercept) if math.isfinite(slope + intercept) else (0.0, prior)


class Seen:
    """Everything that predictions read; each change makes another.

    Parameters
    ----------
    names : tuple
        The features that have a coefficient.
    coef : float64, shape (m,)
        Their coefficients.
    sums : float64, shape (2, 3)
        Count, sum and sum of squares of each class's scores before learning.
    offset : float
        The score at which scores are centred.
    before : Seen, optional
        What this one takes the place of.
    """

    __slots__ = (
        "_by_name", "_in_order", "_numbers", "_pick", "_quick", "coef", "names", "offset", "sums",
    )  # fmt: skip

    def __init__(
        self,
        names: tuple[Any, ...],
        coef: Vector,
        sums: Vector,
        offset: float,
        before: Seen | None = None,
    ) -> None:
        self.names, self.coef, self.sums, self.offset = names, coef.copy(), sums.copy(), offset
        # Found by the first that wants them.
        self._numbers: Vector | None = None
        self._by_name: dict[Any, float] | None = None
        self._in_order: tuple[float, ...] = ()
        self._pick: Callable[[Any], tuple[float, ...]] | None = None
        self._quick: DictScores | None = None
        if before is not None and before.names is names:
            self._pick, self._quick = before._pick, before._quick
            return
        # `itemgetter` of a single name gives no tuple
        if len(names) > 1:
            self._pick = itemgetter(*names)
        if 0 < len(names) <= _DENSE_UP_TO and can_read_dicts():
            self._quick = DictScores(names)

    def with_sums(self, sums: Vector) -> Seen:
        """Return the same coefficients with other score statistics."""
        return Seen(self.names, self.coef, sums, self.offset, self)

    @property
    def line(self) -> tuple[float, float]:
        """Slope and intercept of the log-odds of a centred score."""
        slope, intercept = self._found()[:2].tolist()
        return slope, intercept

    def _found(self) -> Vector:
        """Return slope, intercept and offset, and the coefficients, in one array."""
        numbers = self._numbers
        if numbers is None:
            line = log_odds_line(self.sums)
            numbers = self._numbers = np.array([*line, self.offset, *self.coef.tolist()])
        return numbers

    def score(self, x: Mapping[Any, float]) -> float:
        """Return the score of an example; unknown names are ignored."""
        if self._quick is not None:
            found = self._quick.score_of(x, self._found())
            if found is not None:  # else the example is unusual
                return found
        return self._unusual_score(x)

    def chance(self, x: Mapping[Any, float]) -> float:
        """Return the probability of the positive class."""
        if self._quick is not None:
            numbers, chance_of = self._numbers, self._quick.chance_of
            found = chance_of(x, self._found() if numbers is None else numbers)
            if found is not None:
                return found
        slope, intercept = self.line
        odds = slope * (self._unusual_score(x) - self.offset) + intercept
        if not -700.0 < odds < 700.0:
            odds = min(max(odds, -700.0), 700.0)
        return 1.0 / (1.0 + math.exp(-odds))

    def _unusual_score(self, x: Mapping[Any, float]) -> float:
        """Return the score as the interpreter finds it."""
        if self._by_name is None:
            self._in_order = tuple(self.coef.tolist())
            self._by_name = dict(zip(self.names, self._in_order, strict=True))
        if self._pick is not None and type(x) is dict and len(x) == len(self.names):
            try:
                return _score_of(self._in_order, self._pick(x))
            except KeyError:  # as many names, but others
                pass
        known = map(self._by_name.get, x, repeat(0.0))
        return _score_of(known, x.values())

    def __reduce__(self) -> tuple[type[Seen], tuple[Any, ...]]:
        return (Seen, (self.names, self.coef, self.sums, self.offset))


def _score_of(coef: Iterable[float], values: Iterable[float]) -> float:
    """Return the sum of products in order, with the bits of machine code.

    From Python 3.12 on `sum` rounds otherwise.
    """
    return float(reduce(add, map(mul, coef, values), 0.0))


def check_state(state: Mapping[str, Any], *, most_waiting: int) -> None:
    """Refuse a state that no `NamedLearner` can have; `most_waiting` examples wait in one."""
    index, waiting, labels = state["index"], state["waiting"], state["labels"]
    if not isinstance(index, list) or len(set(index)) != len(index):
        raise ValueError("the saved names are not a list of different ones.")
    if not (isinstance(waiting, list) and isinstance(labels, list)):
        raise ValueError("the saved examples that wait are not lists.")
    if len(waiting) != len(labels) or not all(isinstance(x, Mapping) for x in waiting):
        raise ValueError(
            f"{len(labels)} saved labels and {len(waiting)} saved examples do not belong together."
        )
    if not all(label in (1.0, -1.0) for label in labels):
        raise ValueError("the saved labels are not 1 and -1.")
    restored_count(state, "room", minimum=-(2**62), maximum=most_waiting)
    capacity = restored_count(state, "capacity", minimum=max(1, len(index)))
    check_size(restored_array(state, "coef", (capacity,)))
    check_sane("offset of scores", np.asarray(restored_number(state, "offset")))
    if restored_count(state, "by_name") > len(index):
        raise ValueError(f"the saved coefficients name more than {len(index)} features.")
    moments = restored_array(state, "moments", (2, 3))
    if (moments[:, [0, 2]] < 0.0).any():
        raise ValueError("the saved moments have negative numbers or squares of scores.")
    n_taken = restored_count(state, "n_taken")
    restored_count(state, "n_refused", maximum=n_taken)
    if "blocks" in state:
        return
    origin = restored_array(state, "origin", (capacity if state["stream"] is not None else None,))
    check_sane("origin", origin)
    scale = restored_number(state, "scale", low=0.0, high=np.finfo(np.float64).max)
    if state["stream"] is not None:
        check_positive("the saved scale", scale)
        # In units of the scales, which are at most twice the largest value: a column that is
        # constant shows nothing in the user's.
        w = restored_array(state["stream"]["descent"], "w", (capacity,))
        check_size(w, 2.0 * LARGEST**2)


def check_size(saved: Vector, largest: float = LARGEST) -> None:
    """Refuse coefficients of a file that learning would not have let pass."""
    if np.abs(saved).max() > largest:
        raise ValueError(f"a saved coefficient is beyond {largest:g}.")
