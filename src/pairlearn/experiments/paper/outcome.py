# SPDX-License-Identifier: BSD-3-Clause
"""Settings, data and outcomes that all reproductions share."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pairlearn.data import DataError, Dataset, load
from pairlearn.experiments.comparison.cell import Protocol
from pairlearn.experiments.comparison.runner import HONEST, PAPER, Comparison, compare
from pairlearn.experiments.methods.base import Method
from pairlearn.experiments.report.page import Figure, Part, Table, Text

#: With `quick`, a data set has at most this many examples ...
QUICK_EXAMPLES = 2_000
#: ... which hold at most this many numbers, since tuning on wide rows takes minutes ...
QUICK_NUMBERS = 400_000
#: ... and at most this many splits.
QUICK_SPLITS = 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a reproduction; `compare` describes most of them.

    `quick` takes at most 2,000 examples of each data set (fewer of wide rows) and 2 splits: a look,
    not a result. `datasets` are taken instead of the paper's, and only these `methods`. `tell` gets
    a line as soon as there is something to say.
    """

    store: Path
    quick: bool = False
    protocol: str = "honest"
    n_splits: int | None = None
    seed: int = 0
    workers: int = 1
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    command: str = ""
    progress: Callable[[int, int, str], None] | None = field(default=None, compare=False)
    tell: Callable[[str], None] | None = field(default=None, compare=False)

    def say(self, line: str) -> None:
        """Pass a line to `tell`, if somebody listens."""
        if self.tell is not None:
            self.tell(line)

    def splits(self, usual: int) -> int:
        """Return the number of splits; `usual` is that of the table or figure."""
        if self.n_splits is not None:
            return self.n_splits
        return min(usual, QUICK_SPLITS) if self.quick else usual

    @property
    def rules(self) -> Protocol:
        """The protocol as an object."""
        return {"honest": HONEST, "paper": PAPER}[self.protocol]

    def takes(self, method: str) -> bool:
        """Whether a method of a table or figure was requested; all are, if none was named."""
        return not self.methods or method in self.methods

    def chosen(self, methods: Sequence[Method]) -> list[Method]:
        """Return the requested ones of the methods of a table or figure."""
        return [method for method in methods if self.takes(method.name)]

    def run(
        self,
        datasets: Sequence[Dataset],
        methods: Sequence[Method],
        *,
        n_splits: int,
        protocol: Protocol | None = None,
    ) -> Comparison:
        """Run a comparison; `n_splits` are those of the table or figure."""
        return compare(
            datasets,
            methods,
            store=self.store,
            n_splits=self.splits(n_splits),
            seed=self.seed,
            protocol=self.rules if protocol is None else protocol,
            workers=self.workers,
            command=self.command,
            progress=self.progress,
        )


class Shelf:
    """Loaded data sets, and one line for each that could not be loaded.

    `loader` returns the data set of a name, or raises a DataError; by default it is `load`.
    """

    def __init__(self, settings: Settings, loader: Callable[[str], Dataset] | None = None) -> None:
        self._settings, self._load = settings, loader or load
        self._loaded: dict[str, Dataset] = {}
        #: Why a set is missing, by name.
        self.missing: dict[str, str] = {}

    def take(self, names: Sequence[str]) -> list[Dataset]:
        """Return the available data sets of these names, or those of the settings."""
        for name in (wanted := self._settings.datasets or names):
            if name not in self._loaded and name not in self.missing:
                try:
                    data = self._load(name)
                except DataError as error:
                    self.missing[name] = str(error)
                    self._settings.say(f"missing: {name}: {error}")
                else:
                    self._loaded[name] = _at_most(data) if self._settings.quick else data
        return [self._loaded[name] for name in wanted if name in self._loaded]

    def one(self, name: str) -> Dataset | None:
        """Return a data set, unless others were asked for or it is missing."""
        if self._settings.datasets and name not in self._settings.datasets:
            return None
        return next((data for data in self.take([name]) if data.name == name), None)


def _at_most(data: Dataset) -> Dataset:
    """Return a random part of a large data set, with a digest of its own."""
    count = min(QUICK_EXAMPLES, max(QUICK_NUMBERS // data.X.shape[1], 200))
    if data.n <= count:
        return data
    rows = np.sort(np.random.default_rng(0).choice(data.n, count, replace=False))
    digest = hashlib.sha256(data.sha256.encode() + rows.tobytes()).hexdigest()
    return replace(data, X=data.X[rows], y=data.y[rows], sha256=digest)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one reproduction: remarks, tables that are printed too, more for the page.

    `failures` has a line for each cell that failed, `nothing` says why nothing was run. `seconds`
    is wall-clock time including loading.
    """

    name: str
    title: str
    remarks: Sequence[str] = ()
    printed: Sequence[Table] = ()
    more: Sequence[Table | Figure] = ()
    failures: Sequence[str] = ()
    nothing: str = ""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The outcome for a terminal."""
        tables = [f"{table.title}:\n{table.text}" for table in self.printed]
        remarks = [textwrap.fill(remark, 100) for remark in self.remarks]
        return self.nothing or "\n".join([*remarks, *tables, *self.failures])

    @property
    def parts(self) -> list[Part]:
        """The outcome as a chapter of a page: paragraphs, then tables and figures."""
        if self.nothing:
            return []
        heading = f"{self.name}: {self.title.partition(' (tab:')[0]}"
        found = [replace(p, name=f"{self.name}-{p.name}") for p in (*self.printed, *self.more)]
        return [Text(heading, tuple(self.remarks)), *found]


@dataclass(frozen=True)
class Target:
    """How a table or figure is made, and which settings it heeds.

    `methods` are those to choose from, `datasets` those that it can take; None stands for any.
    """

    make: Callable[[str, Settings, Shelf], Outcome]
    methods: Sequence[str] = ()
    datasets: Sequence[str] | None = None
    splits: bool = True
    protocol: bool = True
