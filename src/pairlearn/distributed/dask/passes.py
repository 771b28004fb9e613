# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the partitions of Dask collections, with the same bits in any order of answers.

The tree of merges depends only on the number of partitions, and a task only on its partition. A
task that runs again, because its worker died, returns the same. Nothing is scattered, so a worker
that dies can lose only the user's own data.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pairlearn.distributed.dask.parts import (
    Layout,
    Parts,
    as_column,
    as_table,
    require_dask,
    taken_apart,
)
from pairlearn.distributed.dask.recipes import Recipe
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.validation import check_positive

#: The number of states that one task merges, and the most that the last one does.
_FAN_IN, _LAST_FAN_IN = 8, 16
#: The most partitions that a task makes.
_MOST_PARTS = 8
#: A task makes several partitions only if every thread has so many tasks.
_TASKS_A_THREAD = 4
#: What is pickled in at most so many bytes is bound to each task.
_SHORT = 1 << 14
#: Seconds between two checks of the workers.
_LOOK = 0.5
#: Why workers die, and what helps.
_TOO_LARGE = (
    "a partition may not fit in their memory; use smaller partitions (.repartition, .rechunk) or "
    "larger workers."
)
#: The number of retries of a task that fails for another reason than the death of its worker.
_RETRIES = 2


class WorkersLostError(RuntimeError):
    """Scheduler or all workers are gone, or a task killed each worker that took it."""


class DaskEngine:
    """Runs tasks on a cluster, or with Dask's local scheduler where there is none.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; by default the current one. Without one, the local scheduler runs tasks.
    worker_timeout : float, default=60.0
        A pass fails after this many seconds without any worker.

    Examples
    --------
    >>> from pairlearn.distributed.dask.parts import parts_of
    >>> state = DaskEngine().run(parts_of(X, y), LabelMoments())  # doctest: +SKIP
    """

    def __init__(self, client: Any = None, *, worker_timeout: float = 60.0) -> None:
        require_dask()
        self.worker_timeout = check_positive("worker_timeout", worker_timeout)
        self.client = _current_client() if client is None else client
        if self.client is not None and getattr(self.client, "asynchronous", False):
            raise ValueError("An asynchronous client cannot wait; pass Client(...) without it.")

    def run(self, parts: Parts, statistic: Statistic) -> State:
        """Return the merged state of all partitions."""
        if not len(parts):
            return {}
        work, asked = partial(_state, layout=parts.layout), _Asked.of(statistic)
        return self._merged_state(asked, _tasks(parts, work, asked, self._batch(parts)))

    def each(self, parts: Parts, work: Callable[..., Any], what: Any) -> list[Any]:
        """Return delayed ``work(what, part, rows, labels, others)``, one for each partition."""
        each = partial(_worked, work, layout=parts.layout)
        return _tasks(parts, each, _Asked.of(what), 1)

    def _batch(self, parts: Parts) -> int:
        """Return how many partitions a task makes, one after the other.

        It is a power of two: their states are a branch of the tree of merges, so that the number of
        workers changes no bit.
        """
        if any(one.needed for one in parts.recipes):
            # Values that lie on a worker are best looked at there.
            return 1
        threads = os.cpu_count() or 1
        if self.client is not None:
            with self._with_scheduler():
                threads = max(self._n_threads(), 1)
        most = min(_MOST_PARTS, len(parts) // (_TASKS_A_THREAD * threads))
        return 1 << (max(most, 1).bit_length() - 1)

    def ask(
        self, statistic: Statistic, state_of: Callable[[Any, Any], State], values: list[Any]
    ) -> State:
        """Return the merged state of delayed values; ``state_of(statistic, value)`` is one's."""
        asked, name = _Asked.of(statistic), f"states-{uuid.uuid4().hex}"
        layer = {f"{name}-{k}": asked.task(state_of, one.key) for k, one in enumerate(values)}
        return self._merged_state(asked, _delayed_of(name, layer, [*asked.tasks, *values]))

    def _merged_state(self, asked: _Asked, states: list[Any]) -> State:
        """Return the merged state of tasks, each of which has a branch of the tree."""
        # All merges in one layer: a delayed call for each costs the client milliseconds.
        name, layer = f"merged-{uuid.uuid4().hex}", {}
        keys, n_merges = [state.key for state in states], 0
        while len(keys) > 1:
            # The last level is wider: another one would wait for all others once more.
            width = _FAN_IN if len(keys) > _LAST_FAN_IN else _LAST_FAN_IN
            some = [keys[k : k + width] for k in range(0, len(keys), width)]
            keys = [f"{name}-{n_merges + k}" for k in range(len(some))]
            layer.update(
                {key: asked.task(_merged, own) for key, own in zip(keys, some, strict=True)}
            )
            n_merges += len(some)
        last = states[0]
        if layer:
            graphs = {id(state.dask): state for state in states}
            last = _delayed_of(name, layer, [*asked.tasks, *graphs.values()])[-1]
        return dict(self.compute([last])[0])

    def compute(self, tasks: list[Any]) -> list[Any]:
        """Return the results of delayed tasks, in their order."""
        if self.client is None:
            return list(require_dask().compute(*tasks))
        with self._with_scheduler():
            futures = self.client.compute(tasks, retries=_RETRIES)
            try:
                return [self._result(future) for future in futures]
            finally:
                for future in futures:
                    future.release()

    def persist(self, tasks: list[Any]) -> list[Any]:
        """Return the tasks, computed and kept where they were computed."""
        if self.client is None:
            return list(require_dask().persist(*tasks))
        with self._with_scheduler():
            return list(self.client.persist(tasks, retries=_RETRIES))

    @contextlib.contextmanager
    def _with_scheduler(self) -> Iterator[None]:
        """Turn the errors of a lost scheduler into one of ours."""
        from concurrent.futures import CancelledError

        from distributed.comm import CommClosedError

        self._check_connection()
        try:
            yield
        except (CommClosedError, CancelledError) as error:
            raise WorkersLostError(_lost_scheduler(str(error))) from error

    def _check_connection(self) -> None:
        if self.client.status not in ("running", "connecting"):
            raise WorkersLostError(_lost_scheduler(f"the client is {self.client.status}"))

    def _n_threads(self) -> int:
        """Return the number of threads of all workers, as the scheduler knows it."""
        try:
            return sum(self.client.nthreads().values())
        except (OSError, TimeoutError) as error:
            # No task has raised it: the scheduler does not answer.
            raise WorkersLostError(_lost_scheduler(str(error))) from error

    def _result(self, future: Any) -> Any:
        """Return the result of a task; raise if no worker is left."""
        from distributed.scheduler import KilledWorker

        alone_since: float | None = None
        while True:
            try:
                return future.result(timeout=_LOOK)
            except TimeoutError:
                pass
            except UnboundLocalError:
                # Where a timeout meets the answer, `distributed.utils.sync` has neither to return.
                if future.status == "error":
                    raise
            except KilledWorker as error:
                raise WorkersLostError(
                    f"Several workers died of the same task ({error}): {_TOO_LARGE}"
                ) from error
            self._check_connection()
            if self._n_threads():
                alone_since = None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > self.worker_timeout:
                future.cancel(force=True)
                raise WorkersLostError(
                    f"No worker has been there for {self.worker_timeout:g} seconds; start workers "
                    f"and fit again, or raise worker_timeout. If they died at work: {_TOO_LARGE}"
                )


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


@dataclass(frozen=True)
class _Asked:
    """What every task of a pass gets first: bound to its function, or from a task of its own.

    No task waits for what is bound. What is long, with thousands of edges, is in a graph once, and
    travels to a worker once.
    """

    bound: tuple[Any, ...]
    tasks: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any) -> _Asked:
        """Return a value as tasks get it."""
        import cloudpickle

        if len(cloudpickle.dumps(value)) <= _SHORT:
            return cls((value,), ())
        return cls((), (require_dask().delayed(value, pure=False, traverse=False),))

    def task(self, work: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """Return a task of a graph that gives the value and some arguments to a function."""
        return (partial(work, *self.bound), *(task.key for task in self.tasks), *arguments)


def _delayed_of(name: str, layer: dict[str, Any], dependencies: list[Any]) -> list[Any]:
    """Return one delayed value for each task of a layer; all share a graph."""
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    graph = HighLevelGraph.from_collections(name, layer, dependencies=dependencies)
    return [Delayed(key, graph, layer=name) for key in layer]


def _tasks(parts: Parts, work: Callable[..., Any], asked: _Asked, size: int) -> list[Any]:
    """Return delayed ``work(what, recipes, given)``, one for each `size` partitions."""
    delayed, recipes = require_dask().delayed, parts.recipes
    if any(one.needed for one in recipes):
        return [
            delayed(partial(work, *asked.bound, recipes=[one]), pure=False)(
                *asked.tasks, given=[own for own in values.values() if own.key in one.needed]
            )
            for one, values in zip(recipes, parts.values, strict=True)
        ]
    # All tasks in one layer: a delayed call for each costs the client milliseconds.
    name = f"parts-{uuid.uuid4().hex}"
    layer = {
        f"{name}-{start}": asked.task(partial(work, recipes=recipes[start : start + size]))
        for start in range(0, len(recipes), size)
    }
    return _delayed_of(name, layer, list(asked.tasks))


def _worked(
    work: Callable[..., Any],
    what: Any,
    *,
    recipes: list[Recipe],
    layout: Layout,
    given: Sequence[Any] = (),
) -> Any:
    (one,) = recipes
    try:
        rows, labels, others = taken_apart(one.made(given), layout)
        return work(what, one.part, rows, labels, others)
    except Exception as error:
        # The name of a task no longer says it.
        error.add_note(f"This happened in partition {one.part}, counted from 0.")
        raise


def _state(
    statistic: Statistic, *, recipes: list[Recipe], layout: Layout, given: Sequence[Any] = ()
) -> State:
    """Return the merged state of some partitions, of which one at a time is in memory."""
    return statistic.merge_all(
        _worked(_partial_state, statistic, recipes=[one], layout=layout, given=given)
        for one in recipes
    )


def _partial_state(
    statistic: Statistic, part: int, rows: Any, labels: Any, others: Mapping[str, Any]
) -> State:
    if statistic.reads_cells:
        return statistic.of_part(part).partial_state(rows, labels, **others)
    columns = {name: as_column(column) for name, column in others.items()}
    return statistic.of_part(part).partial_state(as_table(rows), as_column(labels), **columns)


def _merged(statistic: Statistic, states: list[State]) -> State:
    return statistic.merge_all(states)
