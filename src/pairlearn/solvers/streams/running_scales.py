# SPDX-License-Identifier: BSD-3-Clause
r"""Estimate the scales of features while examples arrive, so that units do not matter.

The scale of column k is s_k = max(std_k, range_k / 10), and in text that of
`estimators.shared.scaling`, as for stored examples, without lengths and repeats. It comes from the
latest examples: those noted in the current window and in the one before. Dense rows are centred.
All rows are divided by their scales, and by one number that makes the variances of all columns add
up to 1. So two examples are at a mean squared distance of 2 for any number of columns. Values
beyond 10 scales are clipped: an outlier, or a column whose unit has changed, cannot ruin the model
before its scale has followed.

Scales are updated at fixed example counts, so they do not depend on how a stream is cut into
chunks. Updates come at the 2nd, 3rd, ... example, each about a quarter later than the last, up to
the 1024th. Then they come after windows of 1024 to 8192 examples, and only the first eighth of a
window is noted. Up to the 1024th example scales always follow. Later a scale changes only if the
spread differs from it by more than a factor of 2. The parameter is then divided by the factor of
the columns, which preserves the learned function.

Among the first examples, preserving the function would preserve mistakes: a scale from two close
values is far too small, and its steps are far too long. So a coefficient in scaled units shrinks
with the factor of its column, and never grows.

References
----------
Ross, Mineiro, Langford. Normalized online learning. UAI 2013.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self

import numpy as np

from pairlearn.features.spreads import FLOOR, RARITY, TABLE, TEXT, least_spread
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.typing import Vector
from pairlearn.validation import check_count, warn_caller

#: The step size c of steps c / sqrt(t) on a margin loss in these units.
STEP_SIZE = 3.0
#: Scaled values are cut off beyond this many scales.
_BOUND = 10.0
#: Scales always follow up to this many examples; later windows have at least as many.
_WINDOW = 1024
#: A later scale changes only if the spread differs from it by more than this factor.
_SLACK = 2.0
#: A later window has at least one example per this many columns, since an update reads them all.
_SHARE = 8
#: Only the first part of a later window is noted, to save time: one part in this many.
_NOTED = 8
#: With fewer rows than this, their order is not judged.
_FEW = 64
#: Rows of the table: the moments of two windows, and five vectors.
_ROWS = 17
#: Rows are scaled in parts of about this many numbers, which stay in the cache ...
_NUMBERS = 1 << 17
#: ... but of at least this many rows.
_LEAST_ROWS = 256
#: The allowed starts of the parameter, see `RunningScales`.
_STARTS = ("zero", "scaled", "given")
#: A column must vary by at least `_NARROWEST`, so that squares and sums of its coefficients
#: do not overflow. `_WIDEST` caps its range.
_NARROWEST, _WIDEST = 1e-50, 1e300


class _Known(Protocol):
    """Scales of stored examples."""

    @property
    def user_centre(self) -> Vector: ...

    @property
    def weights(self) -> Vector: ...


class RunningScales:
    """The scales of the columns of a stream.

    `start` says where the parameter starts: at "zero", at a point in "scaled" units, or at a point
    "given" in the user's units, whose function is preserved. `together` consecutive rows always get
    the same scales: 2 for given pairs.
    """

    def __init__(self, n_features: int, *, start: str = "zero", together: int = 1) -> None:
        if start not in _STARTS:
            raise ValueError(f"start must be one of {', '.join(_STARTS)}, got {start!r}.")
        self.start, self.together = start, check_count("together", together)
        #: Examples received.
        self.n_seen = 0
        #: The number of the example that triggers the next update, and the first example before it
        #: that is no longer noted.
        self._next = self._unnoted = 1 + together
        self._n_rows = np.zeros(2)
        self._bound = _BOUND
        self._name_rows(np.zeros((_ROWS, n_features)))

    def _name_rows(self, table: Vector) -> None:
        """Name the rows of the table. Each column of the table is a feature."""
        self._table = table
        self._before, self._present = table[:6], table[6:12]
        #: s_k, or 0 while column k has not varied; `factor` is what rows are multiplied by.
        self._shift, self._last, self._scale, self._centre, self.factor = table[12:]
        self._has_warned = False

    def __getstate__(self) -> dict[str, Any]:
        # Copying a view would make it an array of its own.
        return self.state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._restore(state)

    @classmethod
    def known(cls, scaling: _Known) -> RunningScales:
        """Return scales known from stored examples; the parameter starts in the user's units."""
        weights = scaling.weights
        scales = cls(len(weights), start="given")
        scales.n_seen = _WINDOW
        scales._look_again_later()
        varies = weights > 0.0
        n = max(int(np.count_nonzero(varies)), 1)
        # The variances of stored columns have mean 1, those of a stream add up to 1.
        scales.factor[:] = weights / math.sqrt(n)
        scales._scale[varies] = 1.0 / weights[varies]
        scales._centre[:] = scaling.user_centre
        scales._bound = _BOUND / math.sqrt(n)
        return scales

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.factor)

    @property
    def unit(self) -> Vector:
        """The factor that turns coefficients of scaled columns into those of the user's columns."""
        if self.start == "given":
            # A column that has not varied keeps its initial coefficient.
            return np.where(self.factor == 0.0, 1.0, self.factor)
        return np.asarray(self.factor)

    @property
    def middle(self) -> Vector:
        """A row amid those seen: the centres of columns, or their value while they are constant."""
        return np.asarray(np.where(self._scale > 0.0, self._centre, self._shift))

    def take(self, rows: Rows) -> Self:
        """Note rows without learning from them; return the scales themselves."""
        for _ in self.segments(rows):
            pass
        return self

    def going_on(self) -> RunningScales:
        """Return these scales for another stream that starts from given coefficients."""
        return RunningScales.from_state({**self.state(), "start": "given"}, self.n_features)

    # --------------------------------------------------------------------------- arriving

    def segments(self, rows: Rows) -> Iterator[tuple[slice, Vector | None]]:
        """Note rows; yield the parts that share the same scales.

        Each part comes with the factor of the parameter before it, or None. While a part is
        yielded, the scales are those of that part. Parts are small enough for the cache.
        """
        (m, d), first, done = rows.shape, 0, 0
        longest = max(_LEAST_ROWS, _NUMBERS // d) * self.together
        change: Vector | None = None
        while done < m:
            if done - first >= longest:
                yield slice(first, done), change
                first, change = done, None
            count = min(m - done, self._next - self.n_seen, first + longest - done)
            noted = min(count, self._unnoted - self.n_seen)
            some = slice(done, done + noted)
            if noted > 0 and isinstance(rows, DenseRows):
                self._note_dense(rows.X[some].astype(np.float64))
            elif noted > 0 and isinstance(rows, CsrRows):
                self._note_sparse(rows.part(some))
            self.n_seen += count
            done += count
            if self.n_seen < self._next:
                continue
            if self._look(rows):
                # The latest row starts the next part.
                if done - 1 > first:
                    yield slice(first, done - 1), change
                first, change = done - 1, self._follow()
            self._look_again_later()
        if first < m:
            yield slice(first, m), change

    def _note_dense(self, rows: Vector) -> None:
        """Add dense rows to the current window; sums are about the first value of a column."""
        counts, low, high, total, squares, jumps = self._present
        if self.n_seen == 0:
            self._shift[:] = self._last[:] = rows[0]
        if self._n_rows[1] == 0.0:
            low.fill(np.inf)
            high.fill(-np.inf)
        np.minimum(low, rows.min(axis=0), out=low)
        np.maximum(high, rows.max(axis=0), out=high)
        stored = rows != 0.0
        counts += np.count_nonzero(stored, axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = (rows - self._shift) * stored
            total += excess.sum(axis=0)
            squares += (excess * excess).sum(axis=0)
            steps = np.diff(rows, axis=0, prepend=self._last[np.newaxis])
            jumps += (steps * steps).sum(axis=0)
        self._last[:] = rows[-1]
        self._n_rows[1] += len(rows)

    def _note_sparse(self, rows: CsrRows) -> None:
        """Add the stored values of rows to the current window."""
        stored = rows.data != 0.0
        column, value = rows.indices[stored], rows.data[stored].astype(np.float64)
        present, shift = self._present, self._shift
        seen, first = np.unique(column, return_index=True)
        fresh = present[0, seen] == 0.0
        present[1, seen[fresh]], present[2, seen[fresh]] = np.inf, -np.inf
        starts = fresh & (shift[seen] == 0.0) & (self._before[0, seen] == 0.0)
        shift[seen[starts]] = value[first[starts]]
        with np.errstate(over="ignore", invalid="ignore"):
            excess = value - shift[column]
            np.minimum.at(present[1], column, value)
            np.maximum.at(present[2], column, value)
            for row, amounts in ((0, 1.0), (3, excess), (4, excess * excess)):
                np.add.at(present[row], column, amounts)
        self._n_rows[1] += rows.shape[0]

    def _look(self, rows: Rows) -> bool:
        """Compute the scales of the latest examples; return whether they must change."""
        values = rows.data if isinstance(rows, CsrRows) else rows.X
        before, present, shift, n = self._before, self._present, self._shift, self._n_rows.sum()
        slack = 1.0 if self.n_seen <= _WINDOW else _SLACK
        count = before[0] + present[0]
        low, high = np.full((2, self.n_features), np.inf) * [[1.0], [-1.0]]
        for window in (before, present):
            known = window[0] > 0.0
            low = np.where(known, np.minimum(low, window[1]), low)
            high = np.where(known, np.maximum(high, window[2]), high)
        # Values that are not stored are zero.
        low = np.where(count < n, np.minimum(low, 0.0), low)
        high = np.where(count < n, np.maximum(high, 0.0), high)
        power = _rarity(count, float(n))
        with np.errstate(all="ignore"):
            excess = before[3] + present[3]
            mean = (excess + count * shift) / n
            rest = shift - mean
            squares = before[4] + present[4] + 2.0 * rest * excess
            variance = (squares + count * rest * rest + (n - count) * mean * mean) / n
            width = np.minimum(high - low, _WIDEST)
            least = least_spread(values.dtype) * np.maximum(np.abs(low), np.abs(high))
            varies = (high > low) & (width > least)
            narrow = np.flatnonzero(varies & (width < _NARROWEST))
            varies &= width >= _NARROWEST
            # Squares of extreme values overflow; the range then replaces the deviation.
            usual = (variance > 0.0) & (variance < np.inf)
            deviation = np.where(usual, np.minimum(np.sqrt(variance), width), width)
            share = np.minimum(1.0, 2.0 * count / n)
            spread = np.minimum(deviation / share ** (RARITY * power), width)
            spread = np.maximum(spread, FLOOR * (1.0 - power) * width)
            scale = self._scale
            differs = (scale == 0.0) | (spread > slack * scale) | (slack * spread < scale)
            moves = varies & (differs | (slack == 1.0))
            changes = bool((moves & ((spread != scale) | (mean != self._centre))).any())
            self._found = np.where(moves, spread, scale), np.where(moves, mean, self._centre)
            self._total = float(((deviation[varies] / self._found[0][varies]) ** 2).sum())
        if len(narrow) and not self._has_warned:
            self._has_warned = True
            warn_caller(
                f"feature {narrow[-1]} varies by less than {_NARROWEST:g}, too little "
                "for any scale, and counts as constant; give it in a smaller unit.",
                UserWarning,
            )
        return changes and self._total > 0.0

    def _follow(self) -> Vector:
        """Take over the computed scales; return the factor of the parameter."""
        norm, (scale, centre) = math.sqrt(self._total), self._found
        keeps = self.n_seen > _WINDOW or self.start == "given"
        now = np.divide(1.0, scale * norm, out=np.zeros_like(scale), where=scale > 0.0)
        change, had = np.ones(len(now)), self.factor > 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if keeps:
                change = np.where(had, self.factor / now, change)
            elif self.start == "zero":
                change = np.where(had, np.minimum(now / self.factor, 1.0), change)
            if self.start == "given":
                # A coefficient in the user's units is converted once its column varies.
                change = np.where(~had & (now > 0.0), 1.0 / now, change)
        self._scale[:], self.factor[:] = scale, now
        # Where the sum of values overflows, the centre is the first value.
        self._centre[:] = np.where(np.isfinite(centre), centre, self._shift)
        self._bound = _BOUND / norm
        return change

    def _look_again_later(self) -> None:
        n = self.n_seen
        if n < _WINDOW:
            self._next = self._unnoted = self._begins(min(n + max(n // 4, 1), _WINDOW))
            return
        n_present = self._n_rows[1]
        if n_present:
            self._before[:] = self._present
            self._present.fill(0.0)
            self._n_rows[:] = n_present, 0.0
        known = int(np.count_nonzero(self._scale))
        length = max(min(max(n // 8, _WINDOW), 8 * _WINDOW), known // _SHARE)
        self._next, self._unnoted = self._begins(n + length), n + length // _NOTED

    def _begins(self, n: int) -> int:
        """Return the first example from the n-th on that starts a group."""
        return n + (1 - n) % self.together

    def least_jump(self) -> tuple[float, int]:
        """Return the smallest ratio of squared jumps between successive rows to twice the variance.

        Return its column too. The ratio covers the dense rows of the latest window. It is about 1
        in a random order, and about 0 if the rows are sorted by that column. Infinity means too few
        rows.
        """
        for window, n in ((self._present, self._n_rows[1]), (self._before, self._n_rows[0])):
            if n >= _FEW:
                return _least_jump(window, n, self._shift)
        return math.inf, -1

    # --------------------------------------------------------------------------- scaling

    def apply(self, rows: Rows, buffer: Rows | None = None) -> Rows:
        """Return sound rows scaled, after those of a buffer, in the same storage and type."""
        if isinstance(rows, CsrRows):
            if isinstance(buffer, CsrRows):
                rows = buffer.followed_by(rows)
            # Rows are not centred: values that are not stored stay zero.
            middle = (self._centre * self.factor)[rows.indices]
            value = rows.data * self.factor[rows.indices] - middle
            data = self._clipped(value) + middle
            return rows.with_values(data.astype(rows.data.dtype, copy=False))
        X = np.concatenate([buffer.X, rows.X]) if isinstance(buffer, DenseRows) else rows.X
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self._clipped((X - self._centre) * self.factor)
        return rows.with_values(scaled.astype(rows.X.dtype, copy=False))

    def _clipped(self, values: Vector) -> Vector:
        return np.asarray(np.fmin(np.fmax(values, -self._bound), self._bound))

    # --------------------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the next example depends on."""
        table = self._table.copy()
        if np.count_nonzero(np.isfinite(table)) < table.size:
            # Squares of extreme values overflow; the kernel uses the range instead.
            np.nan_to_num(table, copy=False)
        return {
            "start": self.start,
            "together": self.together,
            "n_seen": self.n_seen,
            "next": self._next,
            "unnoted": self._unnoted,
            "n_rows": self._n_rows.copy(),
            "table": table,
            "bound": self._bound,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int) -> RunningScales:
        """Return the scales of a saved `state`."""
        if state["table"].shape != (_ROWS, n_features):
            raise ValueError(
                f"the saved scales have {state['table'].shape[1]} features, not {n_features}."
            )
        scales = cls.__new__(cls)
        scales._restore(state)
        return scales

    @staticmethod
    def widened(state: Mapping[str, Any], n_features: int) -> dict[str, Any]:
        """Return the state with added columns that have always been zero."""
        more = n_features - state["table"].shape[1]
        return {**state, "table": np.pad(state["table"], ((0, 0), (0, more)))}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.start, self.together = state["start"], int(state["together"])
        self.n_seen, self._next = int(state["n_seen"]), int(state["next"])
        self._unnoted, self._bound = int(state["unnoted"]), float(state["bound"])
        self._n_rows = state["n_rows"].copy()
        self._name_rows(state["table"].copy())


def _rarity(count: Vector, n: float) -> float:
    """Return how much rows are text: from 0 to 1 as the mean share of values falls.

    The mean share of stored values of a column falls from `TABLE` to `TEXT`.
    """
    known, stored = float(np.count_nonzero(count)), float(count.sum())
    if not stored > 0.0:
        return 0.0
    power = math.log(TABLE * known * n / stored) / math.log(TABLE / TEXT)
    return min(max(power, 0.0), 1.0)


def _least_jump(present: Vector, n: float, shift: Vector) -> tuple[float, int]:
    """Return the least ratio of mean squared jumps to twice the variance, and its column.

    Both are of the n dense rows of the current window. The ratio is about 1 for independent rows,
    and about 0 for sorted ones. Columns whose variance comes from a few rare values are left out.
    """
    # The sums leave out zeros.
    zeros = n - present[0]
    with np.errstate(all="ignore"):
        mean = (present[3] - zeros * shift) / n
        square = (present[4] + zeros * shift * shift) / n
        variance = square - mean * mean
        width = present[2] - present[1]
        counts = (variance > (FLOOR * width) ** 2) & (variance > 1e-12 * square)
        ratio = np.where(counts, present[5] / (2.0 * n * variance), np.inf)
    column = int(np.argmin(ratio))
    return (float(ratio[column]), column) if ratio[column] < np.inf else (math.inf, -1)
