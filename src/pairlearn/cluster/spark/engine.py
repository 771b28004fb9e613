# SPDX-License-Identifier: BSD-3-Clause
"""A Spark frame as an engine, with states that merge in a tree of tasks.

A task makes the state of its partition, chunk by chunk. Eight states at a time are then merged by
tasks, in the order of their partitions: the same tree as that of `Statistic.merge_all`. An error in
a task travels like a state, so that it is raised once and by its own message. Everything goes by
`mapInArrow` and `applyInArrow`, which Spark Connect has, too.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F  # noqa: N812 -- as all of Spark's users write it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from pairlearn.cluster.columns import Columns
from pairlearn.cluster.statistic import State, Statistic
from pairlearn.register import nearest
from pairlearn.validation import DivergenceError

#: 2^3 states are merged by one task, twice; the driver merges what is left.
_SHIFT, _LEVELS = 3, 2
#: The number of rows whose state is made at once: a batch of Spark has ten thousand.
_AT_ONCE = 100_000
#: A state, or the message of an error.
_SCHEMA = "part long, failed string, state binary"
_ARROW = pa.schema([("part", pa.int64()), ("failed", pa.string()), ("state", pa.binary())])
#: Errors that keep their class on the way to the driver.
_KINDS = {kind.__name__: kind for kind in (ValueError, TypeError, DivergenceError)}
_OF_STATISTICS = (ArithmeticError, LookupError, TypeError, ValueError)


class SparkJobError(RuntimeError):
    """A job of Spark failed: an executor is lost, or a task of the frame itself raised."""


class OnSpark:
    """Rows of a Spark frame, for `fit_on`.

    A frame is computed anew for every pass, unless it is cached.

    Parameters
    ----------
    frame : DataFrame
        The rows; also one of Spark Connect. pairlearn has to be installed on the executors.
    features : str or list of str
        A column of vectors (dense or sparse) or of arrays of numbers, or the names of columns of
        numbers.
    label : str
        The column of labels.
    weight : str, optional
        The column of weights.
    qid : str, optional
        The column of queries, of which each must lie in one partition.

    Attributes
    ----------
    feature_names : list of str or None
        The names of the features, where they are known.

    Examples
    --------
    >>> engine = OnSpark(frame, ["age", "income"], "bought")  # doctest: +SKIP
    >>> model = fit_on(engine, AUCClassifier())  # doctest: +SKIP
    """

    def __init__(
        self,
        frame: Any,
        features: str | Sequence[str],
        label: str,
        *,
        weight: str | None = None,
        qid: str | None = None,
    ) -> None:
        read = [*([features] if isinstance(features, str) else features), label]
        read += [name for name in (weight, qid) if name is not None]
        #: The columns that are read.
        self.frame, schema = selected(frame, read)
        self.columns = Columns.of(schema, label, features, weight, qid)
        self.feature_names: list[str] | None = list(self.columns.features)
        if isinstance(features, str):
            self.feature_names = _names_of_vectors(frame.schema[features])

    def run(self, statistic: Statistic) -> State:
        """Return the merged state of all partitions."""
        columns = self.columns

        def states_of(batches: Iterator[Any]) -> Iterator[Any]:
            yield _partition_state(statistic, columns, batches)

        def merged(table: Any) -> Any:
            return pa.Table.from_batches([_merged(statistic, table)])

        states = self.frame.mapInArrow(states_of, _SCHEMA)
        for _ in range(_LEVELS):
            group = F.shiftright("part", _SHIFT).alias("group")
            states = states.groupBy(group).applyInArrow(merged, _SCHEMA)
        rows = sorted(_collected(states), key=lambda row: row["part"])
        for row in rows:
            if row["failed"] is not None:
                _raise(row["failed"])
        return statistic.merge_all([pickle.loads(row["state"]) for row in rows])


def selected(frame: Any, names: Sequence[str]) -> tuple[Any, Any]:
    """Return a frame of some columns, and its schema of Arrow; refuse unknown names."""
    if not hasattr(frame, "mapInArrow"):
        raise TypeError(
            f"expected a Spark DataFrame, got {type(frame).__name__}; spark.createDataFrame(...) "
            "makes one."
        )
    known = frame.columns
    for name in names:
        if known.count(name) > 1:
            raise ValueError(f"{name!r} stands for several columns; rename all but one.")
        if name not in known:
            raise ValueError(f"{name!r} is no column of the frame{nearest(name, known)}")
    # Quoted: a dot in a name is no field of a struct.
    chosen = frame.select(*["`" + name.replace("`", "``") + "`" for name in dict.fromkeys(names)])
    return chosen, to_arrow_schema(T.StructType([chosen.schema[name] for name in chosen.columns]))


def _names_of_vectors(field: Any) -> list[str] | None:
    """Return the names of the features of a column of vectors, where Spark's transformers tell."""
    if not isinstance(field.dataType, VectorUDT):
        return None
    attributes = field.metadata.get("ml_attr", {})
    known = [one for kind in attributes.get("attrs", {}).values() for one in kind]
    names = {one.get("idx"): one.get("name") for one in known}
    width = attributes.get("num_attrs") or len(known)
    if not width or set(names) != set(range(width)) or None in names.values():
        return None
    return [str(names[k]) for k in range(width)]


def _partition_state(statistic: Statistic, columns: Columns, batches: Iterator[Any]) -> Any:
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    try:
        blocks = columns.blocks(batches, _AT_ONCE)
        state = statistic.merge_all(statistic.partial_state(**block) for block in blocks)
    except _OF_STATISTICS as error:
        return _failed(number, error)
    return _row(number, None, pickle.dumps(state))


def _merged(statistic: Statistic, table: Any) -> Any:
    """Merge the states of neighbours; the first error is passed on."""
    rows = sorted(table.to_pylist(), key=lambda row: row["part"])
    part = rows[0]["part"] >> _SHIFT
    for row in rows:
        if row["failed"] is not None:
            return _row(part, row["failed"], b"")
    try:
        state = statistic.merge_all([pickle.loads(row["state"]) for row in rows])
    except _OF_STATISTICS as error:
        return _failed(part, error)
    return _row(part, None, pickle.dumps(state))


def _row(part: int, failed: str | None, state: bytes) -> Any:
    return pa.RecordBatch.from_pylist(
        [{"part": part, "failed": failed, "state": state}], schema=_ARROW
    )


def _failed(part: int, error: Exception) -> Any:
    return _row(part, f"{type(error).__name__}: {error}", b"")


def _collected(frame: Any) -> list[Any]:
    """Return all rows of a frame; tell a failed job in one line."""
    cause = ""
    try:
        return list(frame.collect())
    except (PySparkException, OSError) as error:
        cause = cause_of(str(error))
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("py4j", "grpc"):
            raise
        cause = cause_of(str(error))
    # Outside of the handler: a hundred lines of Java would come with it.
    raise SparkJobError(
        f"A job of Spark failed: {cause} The log of the executors says more. If an executor was "
        "lost, a partition may be too large for its memory: frame.repartition(n) makes more of "
        "them."
    )


def cause_of(text: str) -> str:
    r"""Return the line of an error of Spark that names its cause.

    >>> cause_of("Task 0 failed: Traceback:\n  File x\nKeyError: 'a'\n\n\tat org.apache\n")
    "KeyError: 'a'."
    """
    lines = text.split("\n\tat ")[0].split("JVM stacktrace:")[0].splitlines()
    told = [line.strip() for line in lines if line.strip()]
    line = told[-1] if told else "no reason is known"
    return line if line.endswith(".") else f"{line}."


def _raise(failed: str) -> None:
    """Raise the error of a task, by its own class where that is one of ours."""
    name, _, message = failed.partition(": ")
    if name in _KINDS:
        raise _KINDS[name](message)
    raise SparkJobError(f"A task of Spark failed: {failed}")
