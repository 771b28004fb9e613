# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the partitions of a Spark frame, with states that merge in a tree of tasks.

A task makes the state of its partition, chunk by chunk. Eight states at a time are then merged by
tasks, in the order of their partitions, until few are left for the driver: the same tree as that of
`Statistic.merge_all`. An error in a task travels like a state, so that it is raised once and by its
own message. Each pass also sums a hash of every row. A frame whose rows differ between two passes
is refused: its statistics would be about different examples.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from pairlearn.content import mixed, row_hashes, with_column
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.spark.batches import Layout, chunks_of
from pairlearn.spark.frames import Selected
from pairlearn.validation import DivergenceError

#: The number of states that one task merges: a power of two, as merging neighbours goes by twos.
_FAN_IN = 8
_SHIFT = 3
#: Levels of merges while the number of partitions is not known.
_FIRST_LEVELS = 2
#: The number of rows whose state is made at once.
_AT_ONCE = 100_000
#: A state, or the message of an error, with what was read for it.
_SCHEMA = "part long, n_parts long, n_rows long, content long, failed string, state binary"
#: Errors of Spark, and of the connection to it.
_OF_SPARK = (PySparkException, Py4JError, OSError)
#: Errors that keep their class on the way to the driver.
_KINDS = {kind.__name__: kind for kind in (ValueError, TypeError, DivergenceError)}


class SparkJobError(RuntimeError):
    """A job of Spark failed: an executor is lost, or a task of the frame itself raised."""


@dataclass(frozen=True)
class _Task:
    """What a task does with its partition."""

    statistic: Statistic
    layout: Layout
    at_once: int
    #: The types of the columns, for a partition without a batch.
    schema: Any

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        number = TaskContext.get().partitionId()
        own = self.statistic.of_part(number)
        try:
            told = self._of_cells(own, batches) if own.reads_cells else self._of_rows(own, batches)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            yield _failed(number, error)
            return
        state, n_rows, content = told
        yield _row(number, 1, n_rows, content, None, pickle.dumps(state))

    def _of_cells(self, own: Statistic, batches: Iterator[Any]) -> tuple[State, int, int]:
        """Return the state of private rows, all at once; neither their number nor their hash."""
        found = list(batches)
        table = pa.Table.from_batches(found) if found else self.schema.empty_table()
        return own.partial_state(**self.layout.cells(table)), 0, 0

    def _of_rows(self, own: Statistic, batches: Iterator[Any]) -> tuple[State, int, int]:
        """Return the state of rows, their number and the sum of their hashes."""
        n_rows = content = 0

        def states() -> Iterator[State]:
            nonlocal n_rows, content
            for chunk in chunks_of(batches, self.at_once):
                examples = self.layout.examples(chunk)
                yield own.partial_state(**examples)
                n_rows += chunk.num_rows
                content += _content(**examples)

        state = own.merge_all(states())
        return state, n_rows, content


def _content(X: Any, y: Any, sample_weight: Any = None) -> int:
    """Return the sum of hashes of examples, the same in any order."""
    hashes = with_column(row_hashes(X), y, 1)
    if sample_weight is not None:
        hashes = with_column(hashes, sample_weight, 2)
    return int(mixed(hashes).sum(dtype=np.uint64))


def _merged(statistic: Statistic, table: Any) -> Any:
    """Merge the states of neighbours; the first error is passed on."""
    rows = sorted(table.to_pylist(), key=lambda row: row["part"])
    part = rows[0]["part"] >> _SHIFT
    for row in rows:
        if row["failed"] is not None:
            return _row(part, 1, 0, 0, row["failed"], b"")
    try:
        state = statistic.merge_all([pickle.loads(row["state"]) for row in rows])
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return _failed(part, error)
    sums = {name: sum(row[name] for row in rows) for name in ("n_parts", "n_rows", "content")}
    return _row(part, sums["n_parts"], sums["n_rows"], sums["content"], None, pickle.dumps(state))


def _row(*values: Any) -> Any:
    """Return one row of states."""
    names = [field.split()[0] for field in _SCHEMA.split(", ")]
    kinds = (pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.binary())
    part, n_parts, n_rows, content, failed, state = values
    told = (part, n_parts, n_rows, _wrapped(content), failed, state)
    arrays = [pa.array([value], kind) for value, kind in zip(told, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names)


def _failed(part: int, error: Exception) -> Any:
    return _row(part, 1, 0, 0, f"{type(error).__name__}: {error}", b"")


def _wrapped(content: int) -> int:
    """Return a sum modulo 2^64, as a signed number."""
    return (content + 2**63) % 2**64 - 2**63


class SparkEngine:
    """Runs statistics over a selected frame; use `passes_over`.

    Parameters
    ----------
    found : Selected
        The columns.
    at_once : int, default=100_000
        The number of rows of a partition whose state is made at once.
    """

    def __init__(self, found: Selected, *, at_once: int = _AT_ONCE) -> None:
        self.frame, self.layout, self.at_once = found.frame, found.layout, at_once
        self._schema = to_arrow_schema(found.frame.schema)
        self._n_parts: int | None = None
        self._seen: tuple[int, int] | None = None

    def run(self, statistic: Statistic) -> State:
        """Return the merged state of all partitions."""
        task = _Task(statistic, self.layout, self.at_once, self._schema)

        def states_of(batches: Iterator[Any]) -> Iterator[Any]:
            return task(batches)

        def merged(table: Any) -> Any:
            return pa.Table.from_batches([_merged(statistic, table)])

        states = self.frame.mapInArrow(states_of, _SCHEMA)
        for n_groups in self._levels():
            group = F.shiftright("part", _SHIFT).alias("group")
            if n_groups is not None:
                states = states.repartition(n_groups, F.shiftright("part", _SHIFT))
            states = states.groupBy(group).applyInArrow(merged, _SCHEMA)
        rows = sorted(_collected(states), key=lambda row: row["part"])
        for row in rows:
            if row["failed"] is not None:
                _raise(row["failed"])
        self._compare(rows, statistic)
        return statistic.merge_all([pickle.loads(row["state"]) for row in rows])

    def _levels(self) -> list[int | None]:
        """Return the number of tasks of each level of merges, None where Spark chooses it."""
        if self._n_parts is None:
            return [None] * _FIRST_LEVELS
        levels: list[int | None] = []
        count = self._n_parts
        while count > _FAN_IN:
            count = -(-count // _FAN_IN)
            levels.append(count)
        return levels

    def _compare(self, rows: list[Any], statistic: Statistic) -> None:
        """Refuse rows that are not those of the first pass."""
        self._n_parts = sum(row["n_parts"] for row in rows)
        if statistic.reads_cells:
            return
        seen = sum(row["n_rows"] for row in rows), _wrapped(sum(row["content"] for row in rows))
        if self._seen is None:
            self._seen = seen
        if seen != self._seen:
            raise ValueError(
                f"The frame held {self._seen[0]:,} rows in the first pass and "
                f"{seen[0]:,}{' others' if seen[0] == self._seen[0] else ''} in another: it is "
                "computed anew for each pass, and is not the same every time (a sample or a random "
                "column after a shuffle). Write it to a file and read it, or frame.checkpoint() it."
            )


@contextmanager
def passes_over(
    dataset: Any, found: Selected, *, cache: bool
) -> Iterator[tuple[Callable[[Statistic], State], Callable[[int, str], None]]]:
    """Give an engine over a selected frame, and a function that tells Spark of each pass.

    The columns stay with the executors between the passes, unless the frame is kept already.
    """
    keep = cache and not any(map(_is_kept, (dataset, found.frame)))
    context = found.frame.sparkSession.sparkContext
    before = context.getLocalProperty("spark.job.description")
    if keep:
        found.frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield (
            SparkEngine(found).run,
            lambda number, purpose: context.setJobDescription(f"pass {number}: {purpose}"),
        )
    finally:
        # A session that is gone keeps nothing, and its own error says more.
        with suppress(*_OF_SPARK):
            context.setJobDescription(before)
            if keep:
                found.frame.unpersist()


def _is_kept(frame: Any) -> bool:
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk or level.useOffHeap)


def _collected(frame: Any) -> list[Any]:
    """Return all rows of a frame; tell a failed job in one line."""
    told = ""
    try:
        return list(frame.collect())
    except _OF_SPARK as error:
        told = cause_of(str(error))
    # Outside of the handler: a hundred lines of Java would come with it.
    raise SparkJobError(
        f"A job of Spark failed: {told} The log of the executors says more. If an executor was "
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
