# SPDX-License-Identifier: BSD-3-Clause
"""Dask collections as an engine, with the same bits in any order of answers.

The tree of merges depends only on the number of partitions, and a task only on its partition. A
task that runs again, because its worker died, returns the same. Nothing is scattered, so a worker
that dies can lose only the user's own data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.cluster.columns import Columns, load_pyarrow
from pairlearn.cluster.statistic import State, Statistic
from pairlearn.validation import check_positive

#: The number of states that one task merges: a power of two, so that any tree is the same tree.
_FAN_IN = 8
#: Seconds between two looks at a task, between two checks of the workers, and that the scheduler
#: has to answer one.
_PAUSE, _LOOK, _ANSWER = 0.005, 0.5, 5.0
#: The number of retries of a task that fails for another reason than the death of its worker.
_RETRIES = 2
#: Why workers die, and what helps.
_TOO_LARGE = (
    "a partition may not fit in their memory; use smaller partitions (.repartition, .rechunk) or "
    "larger workers."
)


class WorkersLostError(RuntimeError):
    """Scheduler or all workers are gone, or a task killed each worker that took it."""


def _load_dask() -> Any:
    try:
        import dask
    except ImportError:
        raise ImportError("Dask is not installed; pip install 'pairlearn[dask]'.") from None
    return dask


class OnDask:
    """Examples of Dask collections, for `fit_on`.

    Parameters
    ----------
    X : dask array of shape (n, d) or dask data frame
        Examples; blocks may be sparse, empty, of unknown length.
    y : dask array or series
        Labels, partitioned as X is.
    sample_weight : dask array or series, optional
        A pair weighs the product of the weights of its examples.
    qid : dask array or series, optional
        The query of each example; each query lies in one partition.
    client : distributed.Client, optional
        The cluster; by default the current one. Without one, Dask's local scheduler runs the tasks.
    worker_timeout : float, default=60.0
        A pass fails after this many seconds without any worker.

    Attributes
    ----------
    feature_names : list of str or None
        The columns of a data frame.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> from pairlearn import AUCClassifier  # doctest: +SKIP
    >>> X, y = da.from_zarr("X"), da.from_zarr("y")  # doctest: +SKIP
    >>> model = fit_on(OnDask(X, y), AUCClassifier())  # doctest: +SKIP
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        qid: Any = None,
        *,
        client: Any = None,
        worker_timeout: float = 60.0,
    ) -> None:
        _load_dask()
        self.worker_timeout = check_positive("worker_timeout", worker_timeout)
        self.client = _current_client() if client is None else client
        if self.client is not None and getattr(self.client, "asynchronous", False):
            raise ValueError("An asynchronous client cannot wait; pass Client(...) without it.")
        if y is None:
            raise ValueError("Pairs need labels; pass y.")
        given = {"y": y, "sample_weight": sample_weight, "qid": qid}
        others = {name: value for name, value in given.items() if value is not None}
        self.feature_names: list[str] | None = None
        #: The columns of a partition that is a frame: features, then these others.
        self._layout: tuple[list[Any], list[str]] | None = None
        if _is_array(X):
            self._parts = _parts_of_arrays(X, others)
        elif _is_frame(X):
            if X.ndim != 2:
                raise ValueError("X must be a data frame, got a series; select with a list.")
            if all(isinstance(name, str) for name in X.columns):
                self.feature_names = list(X.columns)
            _check_numbers(X._meta)
            self._parts, columns = _parts_of_frame(X, others)
            self._layout = columns, list(others)
        else:
            raise TypeError(
                f"X must be a Dask array or data frame, got {type(X).__name__}; for data in memory "
                "use the estimator without Dask, or dask.array.from_array(X, chunks=(100_000, -1))."
            )

    def run(self, statistic: Statistic) -> State:
        """Return the merged state of all partitions."""
        delayed = _load_dask().delayed
        once = delayed(statistic, pure=False, traverse=False)
        state_of, merged = delayed(_state, pure=False), delayed(_merged, pure=False)
        states = [
            state_of(once, number, values, self._layout)
            for number, values in enumerate(self._parts)
        ]
        while len(states) > 1:
            states = [merged(once, states[k : k + _FAN_IN]) for k in range(0, len(states), _FAN_IN)]
        return dict(self._computed(states[0])) if states else {}

    def _computed(self, task: Any) -> Any:
        if self.client is None:
            return task.compute()
        from concurrent.futures import CancelledError

        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker

        if self.client.status not in ("running", "connecting"):
            raise WorkersLostError(_lost_scheduler(f"the client is {self.client.status}"))
        future = None
        try:
            future = self.client.compute(task, retries=_RETRIES)
            return self._result(future)
        except KilledWorker as error:
            raise WorkersLostError(
                f"Several workers died of the same task ({error}): {_TOO_LARGE}"
            ) from error
        except (CommClosedError, CancelledError) as error:
            raise WorkersLostError(_lost_scheduler(str(error))) from error
        finally:
            if future is not None:
                future.release()

    def _result(self, future: Any) -> Any:
        """Return the result of a task; raise if no worker is left."""
        looked = seen = time.monotonic()
        while not future.done():
            time.sleep(_PAUSE)
            now = time.monotonic()
            if now - looked < _LOOK:
                continue
            looked = now
            if self.client.status not in ("running", "connecting"):
                raise WorkersLostError(_lost_scheduler(f"the client is {self.client.status}"))
            if self._has_workers():
                seen = time.monotonic()
            elif now - seen > self.worker_timeout:
                future.cancel(force=True)
                raise WorkersLostError(
                    f"No worker has been there for {self.worker_timeout:g} seconds; start workers "
                    f"and fit again, or raise worker_timeout. If they died at work: {_TOO_LARGE}"
                )
        return future.result()

    def _has_workers(self) -> bool:
        """Tell whether the scheduler knows of workers; one that does not answer has none."""
        try:
            found = self.client.sync(self.client.scheduler.ncores, callback_timeout=_ANSWER)
        except TimeoutError:
            return False
        except OSError as error:
            raise WorkersLostError(_lost_scheduler(str(error))) from error
        return bool(sum(found.values()))


def _lost_scheduler(why: str) -> str:
    why = " ".join(why.split())  # Dask's own words may take several lines
    return (
        f"The connection to the scheduler of Dask is lost ({why}); start the cluster again, and "
        "ask again with a client of it."
    )


def _current_client() -> Any:
    try:
        from distributed import default_client
    except ImportError:
        return None
    try:
        return default_client()
    except ValueError:
        return None


def _is_array(value: Any) -> bool:
    import dask.array

    return isinstance(value, dask.array.Array)


def _is_collection(value: Any) -> bool:
    return hasattr(value, "__dask_graph__")


def _is_frame(value: Any) -> bool:
    """Return whether a value is a Dask data frame or series, without importing pandas."""
    return _is_collection(value) and hasattr(value, "map_partitions") and not _is_array(value)


def _state(
    statistic: Statistic,
    number: int,
    values: Mapping[str, Any],
    layout: tuple[list[Any], list[str]] | None,
) -> State:
    """Return the state of a partition."""
    try:
        if layout is None:
            examples = {name: _as_array(value) for name, value in values.items()}
        else:
            examples = _examples(values["whole"], *layout)
        return statistic.partial_state(**examples)
    except Exception as error:
        # The name of a task does not say it.
        error.add_note(f"This happened in partition {number}, counted from 0.")
        raise


def _as_array(value: Any) -> Any:
    return value.to_numpy() if hasattr(value, "to_numpy") else value


def _merged(statistic: Statistic, states: list[State]) -> State:
    return statistic.merge_all(states)


def _parts_of_arrays(X: Any, others: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the values of each partition by name."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (examples, features), got {X.ndim}.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    columns = {"X": X.to_delayed()[:, 0].tolist()}
    for name, value in others.items():
        columns[name] = _column(name, value, X)
    return [dict(zip(columns, part, strict=True)) for part in zip(*columns.values(), strict=True)]


def _column(name: str, value: Any, X: Any) -> list[Any]:
    """Return labels, weights or queries as one delayed value a partition of the array X."""
    if not _is_collection(value):
        raise TypeError(
            f"{name} must be a Dask array or series like X, got {type(value).__name__}; "
            f"dask.array.from_array({name}, chunks=X.chunks[0]) makes one."
        )
    if _is_frame(value):
        parts = list(value.to_delayed(optimize_graph=False))
        _same_number(name, X.numblocks[0], len(parts))
        return parts
    if value.ndim == 2 and value.shape[1] == 1:
        value = value[:, 0]
    # Labels of survival are events with times.
    if value.ndim != 1 and not (name == "y" and value.ndim == 2):
        raise ValueError(f"{name} must have one dimension, got {value.ndim}.")
    known = not np.isnan([*value.chunks[0], *X.chunks[0]]).any()
    if known and value.chunks[0] != X.chunks[0]:
        if value.shape[0] != X.shape[0]:
            raise ValueError(
                f"X and {name} have different numbers of rows; give one {name} for each row."
            )
        value = value.rechunk({0: X.chunks[0]})
    _same_number(name, X.numblocks[0], value.numblocks[0])
    if value.ndim == 2:
        return list(value.rechunk({1: -1}).to_delayed()[:, 0])
    return list(value.to_delayed())


def _same_number(name: str, of_rows: int, of_column: int) -> None:
    if of_rows != of_column:
        raise ValueError(
            f"X has {of_rows} partitions and {name} has {of_column}; partition both alike, with "
            ".rechunk(X.chunks[0]) or .repartition(npartitions=...)."
        )


def _parts_of_frame(X: Any, others: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the partitions of one frame of X and series, and its columns.

    So files are read once, and Dask, which may read several small files as one partition, does so
    for all columns alike.
    """
    for name, value in others.items():
        if not _is_frame(value):
            raise TypeError(
                f"X is a data frame, and {name} must be a series that is partitioned like it "
                f"(table[column], without .values), got {type(value).__name__}."
            )
        if value.ndim != 1:
            raise ValueError(f"{name} must be a series, got a data frame; select one column.")
        _same_number(name, X.npartitions, value.npartitions)
    series = list(others.values())
    meta = _side_by_side(X._meta, list(X.columns), *(one._meta for one in series))
    # Dask would compare each partition with what it expects, in milliseconds.
    whole = X.map_partitions(
        _side_by_side, list(X.columns), *series,
        meta=meta, align_dataframes=False, enforce_metadata=False,
    )  # fmt: skip
    delayed = list(whole.to_delayed())
    if len(delayed) != whole.npartitions:
        delayed = list(whole.to_delayed(optimize_graph=False))
    return [{"whole": part} for part in delayed], list(whole.columns)


def _side_by_side(frame: Any, known: list[Any], *series: Any) -> Any:
    # By position: an index may repeat, and a feature may be called y.
    wide = _in_order(frame, known).copy(deep=False)
    for one in series:
        if len(one) != len(frame):
            raise ValueError(
                "X and y (or sample_weight) have different numbers of rows in one partition; "
                "partition both alike."
            )
        wide[f"pairlearn column {wide.shape[1]}"] = one.array
    return wide


def _in_order(frame: Any, names: list[Any]) -> Any:
    """Return a computed frame with its columns in the order of the collection.

    Dask does not look: a file may have other columns, or the same ones in another order.
    """
    found = list(frame.columns)
    if found == names or not len(frame):
        return frame
    if len(set(found)) == len(found) == len(names) and set(found) == set(names):
        return frame[names]
    lacks, beside = ([n for n in a if n not in b] for a, b in ((names, found), (found, names)))
    raise ValueError(
        f"One partition lacks the columns {lacks[:5]} of the others, and has {beside[:5]} beside "
        "them; all partitions need the same columns."
    )


def _check_numbers(meta: Any) -> None:
    """Refuse columns that cannot be numbers, before any task runs; those of objects may be."""
    wrong = [
        f"{name!r} ({kind})"
        for name, kind in zip(meta.columns, meta.dtypes, strict=True)
        if getattr(kind, "kind", "O") not in "biuf"
        and not (kind == np.dtype("O") or "decimal" in str(kind))
    ]
    if wrong:
        raise ValueError(
            f"Features must be numbers, got columns {', '.join(wrong[:5])}"
            f"{', ...' * (len(wrong) > 5)}; encode categories and texts first "
            "(dask.dataframe.get_dummies after .categorize()), or leave them out."
        )


def _examples(frame: Any, known: list[Any], others: list[str]) -> dict[str, Any]:
    """Return the arguments of `Statistic.partial_state` from a computed partition of pandas."""
    pa, d = load_pyarrow(), len(known) - len(others)
    frame = _in_order(frame, known)
    names = [*map(str, known[:d]), *others]
    arrays = []
    for k, name in enumerate(names):
        column = frame.iloc[:, k]
        if isinstance(column.dtype, np.dtype) and column.dtype == np.longdouble:
            column = column.astype(np.float64)
        try:
            arrays.append(pa.array(column))
        except pa.ArrowException as error:
            raise ValueError(
                f"{name!r} holds values of several kinds, or no numbers ({error}); give the column "
                "one type."
            ) from None
    arrays = [one.combine_chunks() if hasattr(one, "combine_chunks") else one for one in arrays]
    table = pa.Table.from_arrays(arrays, names)
    places = {name: d + k for k, name in enumerate(others)}
    columns = Columns(tuple(names[:d]), tuple(range(d)), "columns", places, tuple(names))
    if len(frame):
        columns.check(table.schema)
        return columns.examples(table)
    return {"X": np.empty((0, d)), **{name: np.empty(0) for name in others}}


def predict_on(model: Any, X: Any, method: str = "predict") -> Any:
    """Return what a fitted model says of the rows of a Dask collection, lazily.

    Parameters
    ----------
    model : estimator
        A fitted model, which travels once, not with every partition.
    X : dask array of shape (n, d) or dask data frame
        The rows. Columns of a frame may come in another order than the model knows.
    method : str, default="predict"
        "predict", "decision_function", "predict_proba" or "transform".

    Returns
    -------
    dask array, or series or data frame for a data frame
        The answers, partitioned as X is; those of a frame have its index.

    Examples
    --------
    >>> chances = predict_on(model, X, "predict_proba")  # doctest: +SKIP
    """
    once = _load_dask().delayed(model)
    columns = None
    if method in ("predict_proba", "transform"):
        proba = method == "predict_proba"
        columns = model.classes_.tolist() if proba else list(range(len(model.components_)))
    width = 0 if columns is None else len(columns)
    dtype = model.classes_.dtype if method == "predict" and hasattr(model, "classes_") else float
    if _is_array(X):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        shape = {"chunks": (X.chunks[0], (width,))} if width else {"drop_axis": 1}
        meta = np.empty((0, width) if width else 0, dtype=dtype)
        return X.map_blocks(_answer, once, method, dtype, width, meta=meta, **shape)
    if not _is_frame(X):
        raise TypeError(f"X must be a Dask array or data frame, got {type(X).__name__}.")
    import pandas as pd

    names = list(getattr(model, "feature_names_in_", X.columns))
    if set(names) == set(X.columns):
        X = X[names]
    answers: Any = pd.Series([], dtype=dtype)
    if columns is not None:
        answers = pd.DataFrame({name: pd.Series([], dtype=float) for name in columns})
    return X.map_partitions(_answer_frame, once, method, dtype, columns, names, meta=answers)


def _answer(block: Any, model: Any, method: str, dtype: Any, width: int) -> Any:
    if not block.shape[0]:
        return np.empty((0, width) if width else 0, dtype=dtype)
    return getattr(model, method)(block)


def _answer_frame(
    frame: Any, model: Any, method: str, dtype: Any, columns: list[Any] | None, names: list[Any]
) -> Any:
    import pandas as pd

    width = 0 if columns is None else len(columns)
    found = np.empty((0, width) if width else 0, dtype=dtype)
    if len(frame):
        found = getattr(model, method)(_in_order(frame, names))
    if columns is None:
        return pd.Series(found, index=frame.index)
    return pd.DataFrame(found, index=frame.index, columns=columns)
