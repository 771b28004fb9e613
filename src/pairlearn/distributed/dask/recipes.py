# SPDX-License-Identifier: BSD-3-Clause
"""How the partitions of collections are made, so that one task can make several, one by one.

A task costs client, scheduler and worker milliseconds, whatever it does, and a partition of Dask is
often several: one that reads, one that selects, one for the labels. A recipe takes along the tasks
that no other partition needs, and runs them itself. They are pickled once, not for every pass, and
the scheduler need not look inside.

What has a place stays where it is. Values of persisted collections and of futures lie on a worker,
and so does what is computed from them. A shuffle gives its partitions to workers by the names of
tasks. A value that several tasks make together is left to them, too: they may run side by side.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Pickled tasks of more bytes are not kept: they hold the rows themselves.
_MOST_BYTES = 1 << 16

#: The name of a task in a graph of Dask.
Key = Any


class _Tasks:
    """Tasks of a graph by their keys, unpickled where they run and not on the way."""

    def __init__(self, tasks: dict[Key, Any] | None, pickled: bytes | None = None) -> None:
        self._tasks, self._pickled = tasks, pickled

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = self._pickled
        if pickled is None:
            import cloudpickle

            # As Dask does: functions of a notebook travel, too.
            pickled = cloudpickle.dumps(self._tasks)
            if len(pickled) <= _MOST_BYTES:
                self._pickled = pickled
        return _Tasks, (None, pickled)

    def run(self, keys: Sequence[Key]) -> list[Any]:
        """Return the values of some keys."""
        import dask

        if self._tasks is None:
            assert self._pickled is not None
            # Written by the client, as every task of Dask is.
            self._tasks = pickle.loads(self._pickled)
        return list(dask.get(self._tasks, list(keys)))


@dataclass(frozen=True, eq=False)
class Recipe:
    """How one partition is made."""

    #: The number of the partition.
    part: int
    #: The key of each value.
    wanted: dict[str, Key]
    #: Keys whose values are made elsewhere.
    needed: tuple[Key, ...]
    tasks: _Tasks

    def made(self, given: Sequence[Any] = ()) -> dict[str, Any]:
        """Return the values by name; `given` are those of `needed`."""
        found = dict(zip(self.needed, given, strict=True))
        own = [key for key in self.wanted.values() if key not in found]
        if own:
            found.update(zip(own, self.tasks.run(own), strict=True))
        return {name: found[key] for name, key in self.wanted.items()}


def recipes_of(values: Sequence[Mapping[str, Any]]) -> list[Recipe]:
    """Return the recipe of each partition, from its delayed values by name."""
    from dask._task_spec import convert_legacy_graph

    graph: dict[Key, Any] = {}
    seen: set[int] = set()
    for delayed in (one for part in values for one in part.values()):
        # Graphs of their own share most of their layers.
        for layer in getattr(delayed.dask, "layers", {"": delayed.dask}).values():
            if id(layer) not in seen:
                seen.add(id(layer))
                graph.update(layer)
    # As `dask.get` reads them. A future is no task then, but a key that no task of the graph makes.
    graph = convert_legacy_graph(graph)
    below = {key: list(task.dependencies) for key, task in graph.items()}
    owner: dict[Key, int] = {}
    for number, part in enumerate(values):
        _claim((one.key for one in part.values()), number, owner, below)
    found = []
    for number, part in enumerate(values):
        wanted = {name: one.key for name, one in part.items()}
        tasks: dict[Key, Any] = {}
        needed = [
            key for key in wanted.values() if not _take(key, number, owner, graph, below, tasks)
        ]
        found.append(Recipe(number, wanted, tuple(needed), _Tasks(tasks)))
    return found


#: The owner of what several partitions need.
_SHARED = -1


def _claim(
    keys: Iterable[Key], number: int, owner: dict[Key, int], below: Mapping[Key, list[Key]]
) -> None:
    """Note that a partition needs some keys, and all below them."""
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        before = owner.get(key)
        if before in (number, _SHARED):
            continue
        owner[key] = number if before is None else _SHARED
        waiting += below.get(key, [])


def _take(
    key: Key,
    number: int,
    owner: Mapping[Key, int],
    graph: Mapping[Key, Any],
    below: Mapping[Key, list[Key]],
    tasks: dict[Key, Any],
) -> bool:
    """Add a task and those below it to the tasks of a recipe, all or none; tell whether it was."""
    chain: list[Key] = []
    while key not in tasks:
        # What is not in the graph lies on a worker already.
        if key not in graph or owner[key] != number:
            return False
        chain.append(key)
        if len(below[key]) > 1:
            return False
        if not below[key]:
            break
        (key,) = below[key]
    tasks.update({one: graph[one] for one in chain})
    return True
