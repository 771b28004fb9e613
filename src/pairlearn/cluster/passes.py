# SPDX-License-Identifier: BSD-3-Clause
"""Passes over partitions: how a trainer asks an engine, and what all trainers share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.cluster.rows import as_chunk, same_width
from pairlearn.cluster.statistic import RowContent, State, Statistic, Together
from pairlearn.estimators.shared.examples import see_columns
from pairlearn.estimators.shared.scaling import Columns, Scaling, inverse_of, scaling_of
from pairlearn.estimators.shared.solvers import SOLVERS, Exact
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

#: Runs a statistic over all partitions and returns the merged state.
Run = Callable[[Statistic], State]
#: Squares of larger numbers, and their sums, may leave the range of floats.
_LARGEST = 1e140


class RowsChangedError(ValueError):
    """A source gave other rows in another pass."""


@dataclass(frozen=True)
class ClusterReport:
    """What the passes tell about a model: its attribute `cluster_report_`.

    Parameters
    ----------
    n_passes : int
        Passes over the data.
    training_auc, auc_half_width : float or None
        The AUC of the training examples lies within the half-width of this; None if not measured.

    Examples
    --------
    >>> ClusterReport(n_passes=3).n_passes
    3
    """

    n_passes: int
    training_auc: float | None = None
    auc_half_width: float | None = None


class Passes:
    """Asks an engine, counts the passes, and refuses a source whose rows change between them.

    `engine` has `run`, or is such a function. `progress` is called before each pass with its number
    and its purpose.
    """

    def __init__(self, engine: Any, progress: Callable[[int, str], None] | None = None) -> None:
        self._run: Run = getattr(engine, "run", engine)
        if not callable(self._run):
            raise TypeError(
                f"engine must have a method run, or be a function from a statistic to its state, "
                f"got {type(engine).__name__}; OnDask, OnArrow and OnSpark make engines."
            )
        names = getattr(engine, "feature_names", None)
        self.feature_names: list[str] | None = None if names is None else list(names)
        self._progress, self.n_passes = progress, 0
        self._rows: tuple[int, int] | None = None

    def __call__(self, statistic: Statistic, purpose: str) -> Any:
        """Return the result of a statistic for all partitions."""
        self.n_passes += 1
        if self._progress is not None:
            self._progress(self.n_passes, purpose)
        both = Together({"asked": statistic, "rows": RowContent()})
        found = both.parts(self._run(both))
        rows = both.statistics["rows"].finish(found["rows"])
        if self._rows is None:
            self._rows = rows
        if rows != self._rows:
            others = "others" if rows[0] == self._rows[0] else f"{rows[0]:,}"
            raise RowsChangedError(
                f"The source held {self._rows[0]:,} rows in the first pass and {others} in pass "
                f"{self.n_passes}: it is computed anew for each pass, and is not the same every "
                "time (random numbers, a sample, LIMIT without ORDER BY, a table that changes). "
                "Write it to a file, or persist it, and read that."
            )
        return statistic.finish(found["asked"])


def nameless(model: Any, feature_names: list[str] | None) -> Any:
    """Return a model for tables without names; refuse columns other than it was fitted on."""
    known = getattr(model, "feature_names_in_", None)
    if known is not None and feature_names is not None and list(known) != feature_names:
        raise ValueError(
            f"the model was fitted on the columns {list(known)[:10]}, these are "
            f"{feature_names[:10]}; select the same ones in the same order."
        )
    found = copy.copy(model)
    see_columns(found, None)
    return found


class ColumnSpreads(Statistic):
    """Extremes, means and variances of columns, of which `Scaling` is made.

    Examples
    --------
    >>> X = np.array([[1.0], [3.0]])
    >>> spreads = ColumnSpreads()
    >>> state = spreads.merge(*(spreads.partial_state(X[k : k + 1]) for k in (0, 1)))
    >>> spreads.finish(state).variance
    array([1.])
    """

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of one chunk; `y` is ignored."""
        chunk = as_chunk(X, None, sample_weight)
        if chunk is None:
            return {}
        states = []
        for now, block in chunk.blocks():
            dense = block if isinstance(block, np.ndarray) else block.toarray()
            weight = chunk.weight[now]
            low, high, n = dense.min(axis=0), dense.max(axis=0), float(weight.sum())
            if max(np.abs(low).max(), np.abs(high).max()) > _LARGEST:
                raise ValueError(
                    f"X holds numbers beyond {_LARGEST:g}, whose squares are too large; divide "
                    "their columns by a constant."
                )
            # About a value of the column: squares of columns far from zero would cancel.
            gaps = dense - dense[0]
            offset = weight @ gaps / n
            squares = weight @ (gaps - offset) ** 2
            states.append({"n": np.array(n), "low": low, "high": high,
                           "mean": dense[0] + offset, "squares": squares})  # fmt: skip
        return self.merge_all(states)

    def combine(self, a: State, b: State) -> State:
        """Merge column by column."""
        same_width(len(a["low"]), len(b["low"]))
        n = a["n"] + b["n"]
        gap = b["mean"] - a["mean"]
        return {
            "n": n,
            "low": np.minimum(a["low"], b["low"]),
            "high": np.maximum(a["high"], b["high"]),
            "mean": a["mean"] + (b["n"] / n) * gap,
            "squares": a["squares"] + b["squares"] + (a["n"] * b["n"] / n) * gap**2,
        }

    def finish(self, state: State) -> Columns:
        """Return the facts of all columns."""
        state = self.needs(state)
        variance = state["squares"] / float(state["n"])
        # Columns of rare values are scaled as all others are.
        everywhere = np.ones(len(variance))
        return Columns(state["low"], state["high"], state["mean"], variance, everywhere)


def scaling_from(columns: Columns, *, scaled: bool) -> Scaling:
    """Return the scaling of columns, or one that changes nothing if not `scaled`."""
    ones = np.ones(len(columns.low))
    if not scaled:
        return Scaling(ones, np.zeros_like(ones), ones)
    inverse = inverse_of(columns.size)
    own = Columns(
        columns.low * inverse,
        columns.high * inverse,
        columns.mean * inverse,
        columns.variance * inverse**2,
        columns.present,
    )
    return scaling_of(own, inverse, dtype=np.float64, centred=True)


def refuse_others(estimator: Any, known: Collection[str]) -> None:
    """Refuse parameters that a fit on an engine would ignore, if they are not at their default."""
    own, default = (one.get_params(deep=False) for one in (estimator, type(estimator)()))
    for name, value in own.items():
        if name not in known and value is not default[name] and value != default[name]:
            raise ValueError(
                f"a fit on an engine has no use for {name}={value!r}; "
                "leave it at its default, or fit in the memory of one machine."
            )


def ridge_of(solver: Any, default: str) -> float | None:
    """Return the ridge of `Exact`, None for "auto" or for the default solver of an estimator."""
    if solver == default:
        return None
    made = SOLVERS.make(solver)
    if not isinstance(made, Exact):
        raise ValueError(
            f"a fit on an engine takes solver={default!r} or Exact(ridge), got {solver!r}."
        )
    return made.given_ridge


def class_weights(
    class_weight: Mapping[Any, float] | str | None, classes: list[Any], counts: Vector
) -> Vector:
    """Return the weight of each class."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f'class_weight must be a dict, "balanced" or None, got {class_weight!r}.'
            )
        return np.asarray(counts.sum() / (len(counts) * counts))
    unknown = [label for label in class_weight if label not in classes]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, the labels are {classes}.")
    return np.array(
        [check_positive(f"class_weight of {c!r}", class_weight.get(c, 1.0)) for c in classes]
    )
