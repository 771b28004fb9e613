# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD on a stream: the paper's Algorithm 2, with any online pairing.

A chunk that fails leaves the stream as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.pairings import OnlineSource, Pairing, Plan, PreviousExample, SlotPlan
from pairlearn.pairings.queries import GroupedSource, query_names
from pairlearn.pairings.sound import check_keep, check_plan, is_own
from pairlearn.solvers.descent.descent import Descent
from pairlearn.solvers.rows import NO_WEIGHTS, DenseRows, Rows, as_rows
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.solvers.streams.settings import check_made_of, told
from pairlearn.typing import Vector
from pairlearn.validation import check_labels, check_weights, real_array


class Stream:
    """Algorithm 2: each new example is paired with remembered ones, by default the previous one.

    Made by `PairwiseSGD.start`. Feeding a stream in chunks of any sizes gives the same result up to
    rounding. Memory is the parameter and the remembered examples.

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
        self._descent, self._pairing = descent, pairing
        #: Scales of the columns, or None to take examples as they are.
        self.scales = scales
        #: Whether to check plans: those of pairings of a user.
        self._looks = not is_own(pairing)
        #: Decides who is paired with whom; None pairs each example with the previous one.
        self.source: OnlineSource | None = None
        if type(pairing) is not PreviousExample or not pairing.has_online_form:
            self.source = pairing.online(rng)
            if not isinstance(self.source, OnlineSource):
                raise TypeError(
                    f"{type(pairing).__name__}.online must return an OnlineSource, got "
                    f"{type(self.source).__name__}; derive it from pairlearn.pairings.OnlineSource."
                )
        self._buffer: Rows | None = None
        self._buffer_y = NO_WEIGHTS
        self._buffer_weight = NO_WEIGHTS
        #: Number of examples received.
        self.n_examples = 0

    @property
    def average(self) -> Vector:
        """The average of the iterates so far: the output of Algorithm 2."""
        return self._in_units_of_examples(self.scaled_average)

    @property
    def scaled_average(self) -> Vector:
        """The average in the units of scaled features; equals `average` without scales."""
        average = self._descent.average
        # Iterates that were in the domain in earlier units need not be there in those of now.
        return average if self.scales is None else self._descent.in_domain(average)

    @property
    def w(self) -> Vector:
        """The last iterate."""
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
        x = real_array("x", x)
        if x.shape != (self._descent.n_features,):
            raise ValueError(f"x must have shape ({self._descent.n_features},), got {x.shape}.")
        return self.learn_many(x[np.newaxis], np.array([y], dtype=np.float64))

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
        fails leaves the stream as it was.
        """
        rows = as_rows(X, dtype=None if hasattr(X, "tocsr") else self._descent.w.dtype)
        m = rows.shape[0]
        weight = NO_WEIGHTS if example_weight is None else check_weights(example_weight, m)
        return self.learn_rows(rows, check_labels(y, m), weight, qid)

    def learn_rows(
        self, rows: Rows, y: Vector, weight: Vector, qid: ArrayLike | None = None
    ) -> Stream:
        """Learn from a chunk as `learn_many` does; its labels and weights are already checked.

        Labels and weights are finite, one for each row, and weights are at least 0. An empty
        `weight` means no weights.
        """
        self._check_kind(rows.checked(), weight, qid)
        descent, m = self._descent, rows.shape[0]
        if m == 0:
            return self
        # Before parts are taken: in an array of texts, a gap is a text as any other.
        queries = None if qid is None else query_names(qid, m)
        saved = self._state()
        try:
            parts = [(slice(0, m), None)] if self.scales is None else self.scales.segments(rows)
            for part, change in parts:
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
        return self

    def _check_kind(self, rows: Rows, weight: Vector, qid: ArrayLike | None) -> None:
        descent, d = self._descent, rows.shape[1]
        if d != descent.n_features:
            raise ValueError(f"X has {d} features, but the stream has {descent.n_features}.")
        if not isinstance(rows, DenseRows) and descent.w.dtype != np.float64:
            raise TypeError("Sparse chunks need dtype=float64 at the start of the stream.")
        if rows.shape[0] and self._buffer is not None:
            if len(self._buffer_weight) != len(self._buffer_y) * (len(weight) > 0):
                raise ValueError("Give example_weight for every chunk of a stream or for none.")
            if isinstance(self._buffer, DenseRows) != isinstance(rows, DenseRows):
                raise TypeError("A stream takes dense chunks or sparse chunks, not both.")
        if qid is not None and not isinstance(self.source, GroupedSource):
            raise ValueError("qid needs a pairing within queries; use PreviousOfQuery().")

    def _meet(self, rows: Any, y: Vector, weight: Vector, qid: ArrayLike | None) -> None:
        """Take the steps of a chunk and remember the examples that the pairing keeps."""
        if self._buffer is not None:
            rows = self._buffer.followed_by(rows)
            weight = np.concatenate([self._buffer_weight, weight])
        plan, keep = self._pairs_of(y, rows.shape[0], qid)
        y = np.concatenate([self._buffer_y, y])
        self._descent.advance(
            rows if self.scales is None else self.scales.apply(rows), y, plan, weight
        )
        self._buffer, self._buffer_y = rows.take(keep), y[keep]
        self._buffer_weight = weight[keep] if len(weight) else NO_WEIGHTS

    def _pairs_of(
        self, y: Vector, n: int, qid: ArrayLike | None
    ) -> tuple[Plan | SlotPlan, NDArray[np.int64]]:
        """Return the steps of arriving labels, and who of the buffer and them is remembered."""
        if self.source is None:
            order = np.arange(n, dtype=np.int32)
            return Plan(order[1:], order[:-1]), np.array([n - 1])
        if isinstance(self.source, GroupedSource):
            arrival = self.source.arrive_grouped(y, qid)
        else:
            arrival = self.source.arrive(y)
        if self._looks:
            name = type(self._pairing).__name__
            check_plan(name, arrival.plan, n)
            check_keep(name, arrival.keep, n)
        return arrival.plan, arrival.keep

    # ---------------------------------------------------------------------------- the state

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that the next step depends on, as plain values and arrays.

        Pass it to `restore` of this stream, or of another one started with the same parts.
        """
        return {**self._state(), **self._made_of()}

    def _made_of(self) -> dict[str, str]:
        """Return the parts, in words that a state holds."""
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
        return {
            "descent": self._descent.save(),
            "source": None if self.source is None else self.source.state(),
            "buffer": self._buffer,
            "buffer_y": self._buffer_y,
            "buffer_weight": self._buffer_weight,
            "n_examples": self.n_examples,
            **({} if self.scales is None else {"scales": self.scales.state()}),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        """Go back to a state of `_state`."""
        self._descent.restore(state["descent"])
        if self.source is not None:
            self.source.restore(state["source"])
        if self.scales is not None:
            self.scales = RunningScales.from_state(state["scales"], self._descent.n_features)
        self._buffer, self._buffer_y = state["buffer"], state["buffer_y"]
        self._buffer_weight, self.n_examples = state["buffer_weight"], state["n_examples"]

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state returned by `state`, of a stream with the same parts."""
        if (self.source is None) != (state["source"] is None):
            raise ValueError("the saved stream has another pairing; start this one with it.")
        check_made_of(state, self._made_of())
        if (self.scales is None) != (state.get("scales") is None):
            raise ValueError(
                f"the saved state has {'no ' * (self.scales is not None)}scales; start the stream "
                f"with{'out' * (self.scales is not None)} them."
            )
        before = self._state()
        try:
            self._restore(dict(state))
        except BaseException:
            self._restore(before)
            raise
