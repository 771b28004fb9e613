# SPDX-License-Identifier: BSD-3-Clause
"""Settings, data and outcomes that all reproductions share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pairlearn.data import DataError, load
from pairlearn.data.dataset import Dataset
from pairlearn.experiments.comparison.cell import Protocol
from pairlearn.experiments.comparison.runner import HONEST, PAPER, Comparison, compare
from pairlearn.experiments.comparison.tables import cost_rows
from pairlearn.experiments.methods.base import Method
from pairlearn.experiments.plain_text import text_table
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
        return [m for m in methods if self.takes(m.name)]


class Shelf:
    """Loaded data sets, and one line for each that could not be loaded.

    Parameters
    ----------
    settings : Settings
        Which sets, and how much of them.
    loader : callable, optional
        Returns the data set of a name, or raises a DataError; by default `pairlearn.data.load`.
    """

    def __init__(self, settings: Settings, loader: Callable[[str], Dataset] | None = None) -> None:
        self._settings, self._load = settings, loader or load
        self._loaded: dict[str, Dataset] = {}
        #: Why a set is missing, by name.
        self.missing: dict[str, str] = {}

    def take(self, names: Sequence[str]) -> list[Dataset]:
        """Return the available data sets of these names, or those of the settings."""
        return list(self.each(names))

    def each(self, names: Sequence[str]) -> Iterator[Dataset]:
        """Yield the available data sets of these names, each as soon as it is loaded."""
        for name in self._settings.datasets or names:
            if name not in self._loaded and name not in self.missing:
                try:
                    data = self._load(name)
                except DataError as error:
                    self.missing[name] = str(error)
                    self._settings.say(f"missing: {name}: {error}")
                else:
                    self._loaded[name] = _at_most(data) if self._settings.quick else data
            if name in self._loaded:
                yield self._loaded[name]


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
    """The outcome of one reproduction: `text` for the terminal, `parts` for the page.

    `seconds` is wall-clock time including loading; `n_failures` counts cells.
    """

    name: str
    title: str
    text: str
    parts: tuple[Part, ...]
    seconds: float = 0.0
    n_failures: int = 0

    @classmethod
    def shown(
        cls,
        name: str,
        title: str,
        text: str,
        paragraphs: Sequence[str],
        parts: Sequence[Table | Figure],
        n_failures: int = 0,
    ) -> Outcome:
        """Return an outcome as a chapter: paragraphs, then tables and figures."""
        heading = Text(
            title=f"{name}: {title.partition(' (tab:')[0]}", paragraphs=tuple(paragraphs)
        )
        chapter = (heading, *(_renamed(name, part) for part in parts))
        return cls(name, title, text, chapter, n_failures=n_failures)


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


def run_comparison(
    datasets: Sequence[Dataset],
    methods: Sequence[Method],
    *,
    settings: Settings,
    n_splits: int,
    protocol: Protocol | None = None,
) -> Comparison:
    """Run a comparison with the settings of a reproduction."""
    return compare(
        datasets,
        methods,
        store=settings.store,
        n_splits=settings.splits(n_splits),
        seed=settings.seed,
        protocol=settings.rules if protocol is None else protocol,
        workers=settings.workers,
        command=settings.command,
        progress=settings.progress,
    )


def cost_text(comparison: Comparison) -> str:
    """Return the median CPU seconds of training and tuning, methods by data sets."""
    found = {(row.method, row.dataset): row for row in cost_rows(comparison)}
    body = []
    for method in comparison.methods:
        cells = []
        for dataset in comparison.datasets:
            row = found.get((method, dataset))
            cells.append(
                "-" if row is None else f"{row.cpu_seconds:.3g} ({row.tune_cpu_seconds:.3g})"
            )
        body.append((method, *cells))
    return text_table(("CPU s (tuning)", *comparison.datasets), body)


def _renamed(target: str, part: Table | Figure) -> Table | Figure:
    """Return a part with a name and identifiers that are unique on a page of many targets."""
    name = f"{target}-{part.name}"
    if isinstance(part, Table):
        return replace(part, name=name)
    svg = re.sub(r'((?<=\s)id="|url\(#|href="#)', rf"\g<1>{target}-", part.svg)
    return replace(part, name=name, svg=svg)
