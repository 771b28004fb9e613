# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the partitions of Dask collections, with the same bits in any order of answers.

The tree of merges depends only on the number of partitions, and a task only on its partition. A
task that runs again, because its worker died, returns the same. Nothing is scattered, so a worker
that dies can lose only the user's own data.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pairlearn.distributed.dask.parts import Parts, as_column, as_table, require_dask, taken_apart
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.validation import check_positive

#: The number of states that one task merges.
_FAN_IN = 8
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
        delayed = require_dask().delayed
        # Once in the graph, not with each partition: it may hold thousands of edges.
        once = delayed(statistic, pure=False, traverse=False)
        if parts.whole is not None:
            states = [
                _in_one_task(partial(_state_of_frame, part=k, attached=parts.attached), once, frame)
                for k, frame in enumerate(parts.whole)
            ]
        else:
            states = [
                delayed(_partial_state)(
                    once,
                    k,
                    parts.rows[k],
                    parts.labels[k],
                    {name: column[k] for name, column in parts.others.items()},
                )
                for k in range(len(parts))
            ]
        return self._merged_state(once, states)

    def ask(
        self, statistic: Statistic, state_of: Callable[[Any, Any], State], values: list[Any]
    ) -> State:
        """Return the merged state of delayed values; ``state_of(statistic, value)`` is one's."""
        delayed = require_dask().delayed
        once = delayed(statistic, pure=False, traverse=False)
        return self._merged_state(once, [delayed(state_of)(once, one) for one in values])

    def _merged_state(self, once: Any, states: list[Any]) -> State:
        if not states:
            return {}
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        # All merges in one layer: a delayed call for each costs the client milliseconds.
        name, layer = f"merged-{uuid.uuid4().hex}", {}
        keys, n_merges = [state.key for state in states], 0
        while len(keys) > 1:
            some = [keys[k : k + _FAN_IN] for k in range(0, len(keys), _FAN_IN)]
            keys = [f"{name}-{n_merges + k}" for k in range(len(some))]
            layer.update(
                {key: (_merged, once.key, own) for key, own in zip(keys, some, strict=True)}
            )
            n_merges += len(some)
        if not layer:
            return dict(self.compute(states)[0])
        graph = HighLevelGraph.from_collections(name, layer, dependencies=[once, *states])
        return dict(self.compute([Delayed(keys[0], graph, layer=name)])[0])

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


def _in_one_task(function: Callable[[Any, Any], State], once: Any, frame: Any) -> Any:
    """Return a delayed call, which makes the frame itself where that is one task of its own.

    Two tasks cost twice as much, and a worker that waits to hear of the second one reads the next
    partition meanwhile, and the next, into its memory.
    """
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    task = frame.dask[frame.key]
    if getattr(task, "dependencies", True):
        return require_dask().delayed(function)(once, frame)
    key = f"state-{uuid.uuid4().hex}"
    layer = {key: (function, once.key, task)}
    return Delayed(key, HighLevelGraph.from_collections(key, layer, dependencies=[once]))


def _partial_state(
    statistic: Statistic, part: int, rows: Any, labels: Any, others: Mapping[str, Any]
) -> State:
    if statistic.reads_cells:
        return statistic.of_part(part).partial_state(rows, labels, **others)
    columns = {name: as_column(column) for name, column in others.items()}
    return statistic.of_part(part).partial_state(as_table(rows), as_column(labels), **columns)


def _state_of_frame(
    statistic: Statistic, frame: Any, part: int, attached: tuple[str, ...]
) -> State:
    rows, columns = taken_apart(frame, attached)
    return _partial_state(statistic, part, rows, columns.pop("y", None), columns)


def _merged(statistic: Statistic, states: list[State]) -> State:
    return statistic.merge_all(states)
