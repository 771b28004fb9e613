# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD on a stream: the paper's Algorithm 2, with any online pairing.

A chunk that fails leaves the stream as it was. Results do not depend on the sizes of the chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.pairings import OnlineSource, Pairing, Plan, PreviousExample, SlotPlan
from pairlearn.pairings.queries import GroupedSource, query_names
from pairlearn.pairings.sound import check_keep, check_plan, is_own
from pairlearn.restored import check_sane, restored_array, restored_count, restored_weights
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.descent.descent import Descent, PairPlan, Turn
from pairlearn.solvers.rows import NO_WEIGHTS, DenseRows, Rows, as_rows
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.solvers.streams.settings import check_made_of, told
from pairlearn.solvers.turns import Turns
from pairlearn.typing import Vector
from pairlearn.validation import check_labels, check_weights, real_array

#: Copying this many numbers takes less time than a separate step.
_SMALL = 1 << 15
_NOT_FINITE = "The example contains NaN or infinity; skip it or impute the values."
#: The row order of a chunk, made once for chunks of up to this size.
_ORDER = np.arange(1 << 14, dtype=np.int32)
#: Attributes that are views of other attributes.
_VIEWS = frozenset(
    (
        "_turn_rows",
        "_seen_rows",
        "_seen_flat",
        "_turn_dtype",
        "_turn_shape",
        "_both",
        "_meets_alone",
    )
)


class Stream:
    """Algorithm 2: each new example is paired with remembered ones, by default the previous one.

    Made by `PairwiseSGD.start`. Feeding a stream in chunks of any sizes gives the same result,
    bit for bit on dense rows. Memory is the parameter and the remembered examples.

    Examples
    --------
    >>> from pairlearn import Constant, Hinge, LinearScore, PairwiseSGD, Problem
    >>> solver = PairwiseSGD(schedule=Constant(0.1))
    >>> stream = solver.start(Problem(LinearScore(), Hinge()), 2, rng=0)
    >>> stream.learn_one([1.0, 0.0], 1.0).learn_one([-1.0, 0.0], -1.0).w
    array([0.2, 0. ])
    """

    def __init__(
        self,
        pairing: Pairing,
        descent: Descent,
        rng: np.random.Generator,
        scales: RunningScales | None = None,
    ) -> None:
        self._descent = descent
        #: Scales of the columns, or None to take examples as they are.
        self.scales = scales
        self._learning = Turns()
        self._meets_previous = type(pairing) is PreviousExample and pairing.has_online_form
        self._pairing_name = type(pairing).__name__
        #: Whether to check plans: those of foreign pairings, and all after a state was restored.
        self._looks = not is_own(pairing)
        #: Decides who is paired with whom; None pairs each example with the previous one.
        self.source: OnlineSource | None = None
        if not self._meets_previous:
            self.source = pairing.online(rng)
            if not isinstance(self.source, OnlineSource):
                raise TypeError(
                    f"{type(pairing).__name__}.online must return an OnlineSource, got "
                    f"{type(self.source).__name__}; derive it from pairlearn.pairings.OnlineSource."
                )
        parts = descent.parts
        loss, self._by_labels = parts.problem.loss, parts.problem.by_labels
        self._pairing = pairing
        self._one_sided, self._all_pairs = loss.one_sided, not loss.opposite_labels_only
        self._buffer: Rows | None = None
        self._buffer_y = NO_WEIGHTS
        self._buffer_weight = NO_WEIGHTS
        #: Number of examples received.
        self.n_examples = 0
        # Two rows that take turns as current and previous example of `learn_one`, raw and scaled.
        d = descent.n_features
        self._turns = DenseRows(np.zeros((2, d), dtype=descent.w.dtype))
        self._seen = self._turns if scales is None else DenseRows(np.zeros_like(self._turns.X))
        self._turn_y = np.zeros(2)
        self._view_turns()
        self._plans = (PairPlan.between(0, 1), PairPlan.between(1, 0))
        self._turn = -1

    def _view_turns(self) -> None:
        self._turn_rows = tuple(self._turns.X)
        self._seen_rows = tuple(self._seen.X)
        self._seen_flat = self._seen.flat
        self._turn_dtype, self._turn_shape = self._turns.X.dtype, self._turns.X.shape[1:]
        self._both = Turn(self._turns.X, self._turn_y)
        #: Whether one kernel call learns an example.
        self._meets_alone = (
            self._meets_previous and self.scales is None and self._descent.meets_alone
        )

    def __getstate__(self) -> dict[str, Any]:
        # Copying a view would make it an array of its own.
        return {name: value for name, value in self.__dict__.items() if name not in _VIEWS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._view_turns()

    @property
    def average(self) -> Vector:
        """The average of the iterates so far: the output of Algorithm 2."""
        with self._learning:
            return self._in_units_of_examples(self._scaled_average())

    @property
    def scaled_average(self) -> Vector:
        """The average in the units of scaled features; equals `average` without scales."""
        with self._learning:
            return self._scaled_average()

    def _scaled_average(self) -> Vector:
        average = self._descent.average
        # Iterates that were in the domain in earlier units need not be there in those of now.
        return average if self.scales is None else self._descent.in_domain(average)

    @property
    def w(self) -> Vector:
        """The last iterate."""
        with self._learning:
            return self._in_units_of_examples(self._descent.w.astype(np.float64))

    def _in_units_of_examples(self, w: Vector) -> Vector:
        if self.scales is None:
            return w
        return self._descent.parts.problem.score.in_units(w, self.scales.unit)

    @property
    def n_steps(self) -> int:
        """Number of steps, one less than the number of examples when each meets the previous."""
        return self._descent.n_steps

    @property
    def n_gradients(self) -> int:
        """Number of pairs whose loss was differentiated."""
        return self._descent.n_gradients

    def learn_one(self, x: ArrayLike, y: float) -> Stream:
        """Learn from one dense example, a vector and its label; return the stream itself."""
        with self._learning:
            descent = self._descent
            if type(x) is not np.ndarray or x.dtype is not self._turn_dtype:
                x = real_array("x", x)
            if x.shape != self._turn_shape:
                raise ValueError(f"x must have shape ({descent.n_features},), got {x.shape}.")
            if self._turn >= 0 and self._meets_alone:
                if x.dtype is not self._turn_dtype or not x.flags.carray:
                    # Each new array type costs seconds of compilation.
                    x = np.array(x, dtype=self._turn_dtype)
                if not descent.meet(x, float(y), self._both, 1 - self._turn):
                    raise ValueError(_NOT_FINITE)
                self._turn = 1 - self._turn
                self.n_examples += 1
                return self
            alone = self._meets_previous and self._by_labels
            if not alone or not (self._turn >= 0 or self._take_turns()):
                self._learn_many(x[np.newaxis], np.array([y], dtype=np.float64), None, None)
                return self
            # The other row holds the example before the previous one, which is no longer needed.
            turn = 1 - self._turn if self._turn >= 0 else 0
            row = self._turn_rows[turn]
            row[:] = x
            label = float(y)
            if not isfinite(label + row.dot(row)) and not (
                isfinite(label) and bool(np.isfinite(row).all())
            ):
                raise ValueError(_NOT_FINITE)
            self._turn_y[turn] = label
            if self.scales is not None:
                if self.scales.is_due:
                    # Scales may change with this example; a step that fails must not change them.
                    self._learn_many(row[np.newaxis].copy(), np.array([label]), None, None)
                    return self
                self.scales.apply_to(row, self._seen_rows[turn])
            if self._turn >= 0:
                previous = self._turn_y[1 - turn]
                if (
                    label > previous
                    or (label < previous and not self._one_sided)
                    or self._all_pairs
                ):
                    descent.step_pair(self._seen_flat, self._turn_y, self._plans[turn])
                else:
                    descent.step_nothing()
            if self.scales is not None:
                self.scales.note(row)
            self._turn = turn
            self.n_examples += 1
            return self

    def learn_many(
        self,
        X: Any,
        y: ArrayLike,
        *,
        example_weight: ArrayLike | None = None,
        qid: ArrayLike | None = None,
    ) -> Stream:
        """Learn from a chunk of examples, in the order of its rows; return the stream itself.

        A pair weighs the product of both `example_weight`; give weights for every chunk or for
        none. `qid` names the query of each example, for a pairing within queries. A chunk that
        fails leaves the stream as it was. Threads that teach one stream take turns.
        """
        with self._learning:
            self._learn_many(X, y, example_weight, qid)
        return self

    def learn_rows(
        self, rows: Rows, y: Vector, weight: Vector, qid: ArrayLike | None = None
    ) -> Stream:
        """Learn from a chunk as `learn_many` does; its labels and weights are already checked.

        Labels and weights are finite, one for each row, and weights are at least 0. An empty
        `weight` means no weights.
        """
        with self._learning:
            self._check_kind(rows.checked())
            self._learn_rows(rows, y, weight, qid)
        return self

    def _learn_many(
        self, X: Any, y: ArrayLike, example_weight: ArrayLike | None, qid: ArrayLike | None
    ) -> None:
        rows = as_rows(X, dtype=None if hasattr(X, "tocsr") else self._descent.w.dtype)
        self._check_kind(rows)
        m = rows.shape[0]
        y = check_labels(y, m)
        weight = NO_WEIGHTS if example_weight is None else check_weights(example_weight, m)
        self._learn_rows(rows, y, weight, qid)

    def _check_kind(self, rows: Rows) -> None:
        descent, d = self._descent, rows.shape[1]
        if d != descent.n_features:
            raise ValueError(f"X has {d} features, but the stream has {descent.n_features}.")
        if not isinstance(rows, DenseRows) and descent.w.dtype != np.float64:
            raise TypeError("Sparse chunks need dtype=float64 at the start of the stream.")

    def _learn_rows(self, rows: Rows, y: Vector, weight: Vector, qid: ArrayLike | None) -> None:
        """Learn from checked rows; if this fails, restore the state and raise."""
        descent, m = self._descent, rows.shape[0]
        if m == 0:
            return
        # Before parts are taken: in an array of texts, a gap is a text as any other.
        queries = None if qid is None else query_names(qid, m)
        saved = self._state()
        buffered = 0 if self._buffer is None else len(self._buffer_y)
        if buffered and len(self._buffer_weight) != buffered * (len(weight) > 0):
            raise ValueError("Give example_weight for every chunk of a stream or for none.")
        if self._buffer is not None and type(self._buffer) is not type(rows):
            raise TypeError("A stream takes dense chunks or sparse chunks, not both.")
        try:
            if self.scales is None:
                self._meet(rows, y, weight, queries)
            elif self.source is None and isinstance(rows, DenseRows):
                self._meet_in_order(rows, y, weight, queries)
            else:
                for part, change in self.scales.segments(rows):
                    if change is not None:
                        descent.rescale(change)
                    self._meet(
                        rows if part == slice(0, m) else rows.part(part),
                        y[part],
                        weight[part] if len(weight) else weight,
                        None if queries is None else queries[part],
                    )
            self.n_examples += m
        except BaseException:
            self._restore(saved)
            raise

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the next step depends on, as plain values and arrays.

        Pass it to `restore` of this stream, or of another one started with the same parts.
        """
        with self._learning:
            return {**self._state(), **self._made_of}

    @cached_property
    def _made_of(self) -> dict[str, str]:
        """The parts, in words that a state holds."""
        parts = self._descent.parts
        return {
            "score": told(parts.problem.score),
            "loss": told(parts.problem.loss),
            "comparison": told(parts.problem.comparison),
            "pairing": told(self._pairing),
            "schedule": told(parts.schedule),
            "domain": told(parts.domain),
            "averaging": told(parts.averaging),
        }

    def _state(self) -> dict[str, Any]:
        """Return what changes while the stream learns."""
        self._settle()
        return {
            "descent": self._descent.save(),
            "source": None if self.source is None else self.source.state(),
            "buffer": self._buffer,
            "buffer_y": self._buffer_y,
            "buffer_weight": self._buffer_weight,
            "n_examples": self.n_examples,
            **({} if self.scales is None else {"scales": self.scales.state()}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state returned by `state`; refuse a state that no stream can have."""
        with self._learning:
            self._restore(state)
            self._looks = True

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Validate a state and go back to it."""
        buffer, y, weight = self._checked_buffer(state)
        saved = state["descent"]
        n_steps = restored_count(saved, "n_steps")
        restored_count(saved, "n_gradients")
        if restored_count(saved, "position") != n_steps % BLOCK:
            raise ValueError(
                f"the saved position {saved['position']} is not that of step {n_steps}."
            )
        n_examples = restored_count(state, "n_examples", minimum=len(y))
        if (self.source is None) != (state["source"] is None):
            raise ValueError("the saved stream has another pairing; start this one with it.")
        check_made_of(state, self._made_of)
        if self.source is not None:
            self.source.restore(state["source"])
            expected = self.source.n_remembered
        else:
            expected = min(n_examples, 1)
        if expected not in (None, len(y)):
            raise ValueError(
                f"the saved buffer holds {len(y)} examples, its pairing remembers {expected}."
            )
        scales = None
        if self.scales is not None:
            if state.get("scales") is None:
                raise ValueError("the saved state has no scales; start the stream without them.")
            scales = RunningScales.from_state(state["scales"], self._descent.n_features)
        elif state.get("scales") is not None:
            raise ValueError("the saved state has scales; start the stream with them.")
        self._descent.restore(saved)
        with np.errstate(all="ignore"):
            average = self._descent.average
            if not np.isfinite(average).all():
                raise ValueError("the saved sums and weights have an average that is not finite.")
            check_sane("average", average)
            for name in ("w", "weighted_sum", "left_iterate", "total", "past"):
                check_sane(name, getattr(self._descent, name))
            self.scales = scales
            for name, values in (("average", average), ("w", self._descent.w.astype(np.float64))):
                check_sane(f"{name} in the user's units", self._in_units_of_examples(values))
        self._buffer, self._buffer_y, self._buffer_weight = buffer, y, weight
        self.n_examples = n_examples
        self._turn = -1

    def _checked_buffer(self, state: Mapping[str, Any]) -> tuple[Rows | None, Vector, Vector]:
        """Return the remembered examples of a state, their labels and their weights."""
        buffer, d = state["buffer"], self._descent.n_features
        y = restored_array(state, "buffer_y", (None,))
        weight = restored_weights(state, "buffer_weight", len(y), optional=True)
        if buffer is None and not len(y):
            return None, y, weight
        if not isinstance(buffer, Rows) or buffer.shape != (len(y), d):
            raise ValueError(
                f"the state remembers examples of shape {getattr(buffer, 'shape', None)} with "
                f"{len(y)} labels, the stream has {d} features; start it with the same parts."
            )
        dtype = buffer.X.dtype if isinstance(buffer, DenseRows) else self._descent.w.dtype
        if dtype != self._descent.w.dtype:
            raise ValueError(f"the saved examples are {dtype}; start the stream with that dtype.")
        return buffer, y, weight

    def _meet(self, rows: Any, y: Vector, weight: Vector, qid: ArrayLike | None) -> None:
        """Take the steps of a chunk and remember the examples that the pairing keeps."""
        descent = self._descent
        self._check_queries(qid)
        if self.source is not None:
            if isinstance(self.source, GroupedSource):
                arrival = self.source.arrive_grouped(y, qid)
            else:
                arrival = self.source.arrive(y)
            plan, keep = arrival.plan, arrival.keep
            if self._looks:
                n = len(self._buffer_y) + len(y)
                check_plan(self._pairing_name, plan, n)
                check_keep(self._pairing_name, keep, n)
        else:
            plan = None
        if self.scales is not None:
            self._meet_scaled(rows, y, weight, plan, None if plan is None else keep)
            return
        if self._buffer is not None:
            joined_y = np.concatenate([self._buffer_y, y])
            joined_weight = np.concatenate([self._buffer_weight, weight])
            if plan is None and isinstance(rows, DenseRows) and rows.X.size > _SMALL:
                # Only the first pair crosses the border of the chunk, so the chunk is not copied.
                border = self._buffer.followed_by(rows.take(np.array([0])))  # type: ignore[arg-type]
                descent.advance(border, joined_y, _in_order(2), joined_weight)
            else:
                # Remembered examples of a restored state are not yet checked.
                rows, y = as_rows(self._buffer.followed_by(rows)), joined_y
                weight = joined_weight
        if plan is None:
            m = len(y)
            plan, keep = _in_order(m), np.array([m - 1])
        descent.advance(rows, y, plan, weight)
        descent.settle()
        self._buffer, self._buffer_y = rows.take(keep), y[keep]
        self._buffer_weight = weight[keep] if len(weight) else NO_WEIGHTS

    def _check_queries(self, qid: ArrayLike | None) -> None:
        if qid is not None and not isinstance(self.source, GroupedSource):
            raise ValueError("qid needs a pairing within queries; use PreviousOfQuery().")

    def _meet_in_order(
        self, rows: DenseRows, y: Vector, weight: Vector, qid: ArrayLike | None
    ) -> None:
        """Pair each example of a chunk with the previous one, on scaled rows.

        While scales settle, a chunk has dozens of parts, so the cost per part matters.
        """
        assert self.scales is not None
        self._check_queries(qid)
        descent, scales, buffer, b = self._descent, self.scales, self._buffer, 0
        flat, (m, d) = rows.flat, rows.shape
        if buffer is not None:
            buffer, b = buffer.checked(), 1
            y = np.concatenate((self._buffer_y, y))
            if len(weight):
                weight = np.concatenate((self._buffer_weight, weight))
        for part, change in scales.segments(rows):
            if change is not None:
                descent.rescale(change)
            begin, stop = part.start, part.stop
            now = slice(max(begin - 1 + b, 0), stop + b)
            labels = y[now]
            if descent.ignores(labels):
                descent.stand_still(len(labels) - 1)
                continue
            if begin:
                seen: Rows = scales.apply_flat(flat[(begin - 1) * d : stop * d])
            else:
                seen = scales.apply(rows if stop == m else rows.part(part), buffer)
            plan = _in_order(len(labels))
            descent.advance(seen, labels, plan, weight[now] if len(weight) else weight)
        self._buffer, self._buffer_y = rows.with_values(rows.X[-1:].copy()), y[-1:].copy()
        self._buffer_weight = weight[-1:].copy() if len(weight) else NO_WEIGHTS

    def _meet_scaled(
        self,
        rows: Any,
        y: Vector,
        weight: Vector,
        plan: Plan | SlotPlan | None,
        keep: NDArray[np.int64] | None,
    ) -> None:
        """Take the steps of a chunk on scaled rows; remember the examples unscaled."""
        assert self.scales is not None
        buffer, b = self._buffer, 0
        if buffer is not None:
            buffer, b = buffer.checked(), len(self._buffer_y)
            y = np.concatenate((self._buffer_y, y))
            if len(weight):
                weight = np.concatenate((self._buffer_weight, weight))
        if plan is None or keep is None:
            plan, keep = _in_order(len(y)), np.array([len(y) - 1])
        self._descent.advance(self.scales.apply(rows, buffer), y, plan, weight)
        self._descent.settle()
        if b == 0 or not len(keep) or keep.min() >= b:
            self._buffer = rows.take(keep - b)
        else:
            self._buffer = buffer.followed_by(rows).take(keep)  # type: ignore[union-attr]
        self._buffer_y = y[keep]
        self._buffer_weight = weight[keep] if len(weight) else NO_WEIGHTS

    def _take_turns(self) -> bool:
        """Move the last example of `learn_many` to the two rows of `learn_one`, if it fits."""
        if self._buffer is not None:
            if not isinstance(self._buffer, DenseRows) or len(self._buffer_weight):
                return False
            self._turns.X[0], self._turn_y[0] = self._buffer.X[0], self._buffer_y[0]
            if self.scales is not None:
                self.scales.apply_to(self._turn_rows[0], self._seen_rows[0])
            self._turn = 0
        return True

    def _settle(self) -> None:
        """Move the last example of `learn_one` to the buffer."""
        if self._turn >= 0:
            keep = np.array([self._turn])
            self._buffer, self._buffer_y = self._turns.take(keep), self._turn_y[keep]
            self._turn = -1


def _in_order(m: int) -> Plan:
    """Return the plan that pairs each of m rows with the one before it."""
    order = _ORDER if m <= len(_ORDER) else np.arange(m, dtype=np.int32)
    return Plan(order[1:m], order[: m - 1])
