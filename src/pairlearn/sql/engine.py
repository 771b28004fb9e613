# SPDX-License-Identifier: BSD-3-Clause
"""A query as an engine of passes: its record batches are the partitions.

Every pass runs the query again and holds one batch at a time, so that memory does not grow with the
rows. A pass must see the rows of the first one: their number and a sum of hashes of what they hold
are compared, which do not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.content import mixed, row_hashes, with_column
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.sample import mark_of
from pairlearn.sql.examples import Columns
from pairlearn.sql.sources import source_of
from pairlearn.streams.readers.base import ReadError
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: Rows of a batch: a block of some megabytes for tables of a few dozen columns.
BATCH_ROWS = 122_880
#: States that are merged at once.
_FAN_IN = 16


class QueryChangedError(ReadError):
    """A query gave other rows than before."""


class QueryEngine:
    """Runs statistics over the rows of a query; hand it to `train_auc` as `run`.

    Parameters
    ----------
    source : path, connection or relation of DuckDB, frame of Polars, table or data set of Arrow
        Where the rows are. A path is a DuckDB file, which is opened for reading only.
    query : str, optional
        One SELECT, for a file or a connection of DuckDB, or for a frame of Polars, which it calls
        ``self``. It must give the same rows every time it runs, in any order.
    target : str
        The column of labels.
    columns : list of str, optional
        The columns of features, numbers all of them; by default all but target and weight.
    weight : str, optional
        The column of weights.
    batch_rows : int, default=122880
        Rows in memory at once.

    Attributes
    ----------
    feature_names : list of str
        The columns of features.
    n_passes : int
        How often the query ran to its end.
    n_rows : int or None
        Rows of the result; None before the first pass.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pairlearn.distributed import LabelMoments
    >>> table = pa.table({"age": [20.0, 30.0, 40.0], "bought": [0, 1, 1]})
    >>> run = QueryEngine(table, target="bought")
    >>> statistic = LabelMoments()
    >>> statistic.finish(run(statistic)).means[:, 0], run.feature_names, run.n_rows
    (array([20., 35.]), ['age'], 3)
    """

    def __init__(
        self,
        source: Any,
        query: str | None = None,
        *,
        target: str,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        found = source_of(source, query)
        self._run, self.batch_rows = found.run, check_count("batch_rows", batch_rows)
        #: Which columns are features, labels and weights.
        self.columns = Columns.of(found.schema, target, columns, weight)
        self._seen: _Seen | None = None
        self.n_passes = 0

    @property
    def feature_names(self) -> list[str]:
        """The columns of features."""
        return list(self.columns.features)

    @property
    def n_rows(self) -> int | None:
        """Rows of the result; None before the first pass."""
        return None if self._seen is None else self._seen.n_rows

    def __call__(self, statistic: Statistic) -> State:
        """Return the merged state of all batches."""
        if statistic.reads_cells:
            raise TypeError(
                f"{type(statistic).__name__} reads cells of whole partitions, and a query gives "
                "batches of numbers; train private models from files."
            )
        seen = _Seen()
        state = _merged(statistic, self._states(statistic, seen))
        if not seen.n_rows:
            raise ReadError("the query gives no row; check its WHERE.")
        self.n_passes += 1
        if self._seen is None:
            self._seen = seen
        elif not seen.same_as(self._seen):
            raise QueryChangedError(
                f"pass {self.n_passes} over the query saw other rows than the first one: "
                f"{seen.n_rows} rows after {self._seen.n_rows}"
                f"{', with other values' * (seen.n_rows == self._seen.n_rows)}. A query must give "
                "the same rows every time: without random(), sampling, now() or a LIMIT without "
                "ORDER BY, of tables that do not change meanwhile; or store its result first "
                "(CREATE TABLE ... AS)."
            )
        return state

    def _states(self, statistic: Statistic, seen: _Seen) -> Iterator[State]:
        for part, batch in enumerate(self._run(self.batch_rows)):
            if batch.num_rows:
                examples = self.columns.examples(batch)
                seen.add(*examples)
                yield statistic.of_part(part).partial_state(*examples)


def _merged(statistic: Statistic, states: Iterator[State]) -> State:
    """Merge states as they come, a few at once: there may be thousands of batches."""
    found = statistic.merge_all(list(islice(states, _FAN_IN)))
    while some := list(islice(states, _FAN_IN)):
        found = statistic.merge_all([found, *some])
    return found


class _Seen:
    """The number of rows of a pass, and the sum of hashes of what they hold."""

    def __init__(self) -> None:
        self.n_rows, self._total = 0, np.zeros(1, dtype=np.uint64)

    def add(self, X: Vector, y: NDArray[Any], weight: Vector | None) -> None:
        """Take in rows with their labels and weights."""
        hashes = row_hashes(X)
        if weight is not None:
            hashes = with_column(hashes, weight, 1)
        labels, code = np.unique(y, return_inverse=True)
        marks = np.array([mark_of(label) for label in labels.tolist()], dtype=np.uint64)
        self._total += mixed(hashes + marks[code]).sum(dtype=np.uint64)
        self.n_rows += len(y)

    def same_as(self, other: _Seen) -> bool:
        """Tell whether two passes saw the same rows, in any order."""
        return self.n_rows == other.n_rows and bool((self._total == other._total).all())
