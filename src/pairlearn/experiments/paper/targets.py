# SPDX-License-Identifier: BSD-3-Clause
"""The targets of `pairlearn reproduce`, by name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pairlearn.experiments.methods.private import PUBLIC_FACTS
from pairlearn.experiments.paper.auc_tables import auc_table
from pairlearn.experiments.paper.figures import (
    loglink_figure,
    sampling_figure,
    time_figure,
    timed_methods,
)
from pairlearn.experiments.paper.outcome import Outcome, Settings, Shelf, Target
from pairlearn.experiments.paper.private_tables import (
    mechanisms_of,
    methods_by_row,
    private_auc,
    private_mechanisms,
    private_time,
)
from pairlearn.experiments.published import CITATION, published_table
from pairlearn.experiments.report.comparison import how_it_was_run
from pairlearn.experiments.report.page import Facts, Page, Part, write_page


def _private(name: str) -> list[str]:
    return list(methods_by_row(name).values())


def _timed(loss: str) -> list[str]:
    return [method.name for method in timed_methods(loss)]


#: The paper's tables and figures, in the order of `all`.
PAPER = {
    "table1": Target(auc_table, list(published_table("table1").rows)),
    "table-rs1": Target(auc_table, list(published_table("table-rs1").rows)),
    "table-dp-diabetes": Target(private_auc, _private("table-dp-diabetes"), ["diabetes"]),
    "table-dp-german": Target(private_auc, _private("table-dp-german"), ["german"]),
    "table-dp-time": Target(private_time, _private("table-dp-time"), list(PUBLIC_FACTS)),
    "fig-hinge": Target(time_figure, _timed("hinge")),
    "fig-hinge-more": Target(time_figure, _timed("hinge")),
    "fig-square": Target(time_figure, _timed("square")),
    "fig-sampling": Target(sampling_figure, datasets=(), splits=False, protocol=False),
    "fig-loglink": Target(loglink_figure),
}

#: All targets; some are tables of the documentation that the paper lacks.
TARGETS = {
    **PAPER,
    **{
        name: Target(private_mechanisms, mechanisms_of(name), list(PUBLIC_FACTS))
        for name in ("private-mechanisms", "private-add-remove")
    },
}


def reproduce(names: Sequence[str], settings: Settings, shelf: Shelf) -> Iterator[Outcome]:
    """Yield the outcomes of the targets ("all": the paper's), each as soon as it is ready.

    A setting that none of the targets heeds is refused before anything is run.
    """
    chosen = list(PAPER) if "all" in names else list(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in TARGETS]
    if unknown:
        raise ValueError(
            f"there is no {unknown[0]!r} to reproduce; choose from {', '.join(TARGETS)} and all."
        )
    _refuse_unheeded(chosen, settings)
    for name in chosen:
        begin = time.perf_counter()
        outcome = TARGETS[name].make(name, settings, shelf)
        yield replace(outcome, seconds=time.perf_counter() - begin)


def _refuse_unheeded(chosen: Sequence[str], settings: Settings) -> None:
    """Refuse settings that would change nothing, and methods that leave a target without any."""
    targets = [TARGETS[name] for name in chosen]
    names = ", ".join(chosen)
    for given, heeded, what in (
        (settings.n_splits is not None, [t.splits for t in targets], "splits to count"),
        (settings.protocol != "honest", [t.protocol for t in targets], "protocol to choose"),
    ):
        if given and not any(heeded):
            raise ValueError(f"{names}: there is no {what}; leave the option out.")
    asked: list[tuple[str, Sequence[str], list[Sequence[str]]]] = [
        ("method", settings.methods, [target.methods for target in targets])
    ]
    if all(target.datasets is not None for target in targets):
        asked.append(("data set", settings.datasets, [t.datasets or () for t in targets]))
    for what, wanted, taken in asked:
        known = list(dict.fromkeys(name for some in taken for name in some))
        for name in wanted:
            if name not in known:
                cure = f"choose from {', '.join(known)}" if known else "leave the option out"
                raise ValueError(f"{names}: there is no {what} {name!r} to choose; {cure}.")
    for name, target in zip(chosen, targets, strict=True):
        if target.methods and not any(map(settings.takes, target.methods)):
            raise ValueError(
                f"{name} has the methods {', '.join(target.methods)}; none of them was asked for."
            )


def write_reproduction(
    outcomes: Sequence[Outcome], folder: str | Path, *, settings: Settings, shelf: Shelf
) -> Path:
    """Write the page of all outcomes and its CSV files; return the path of the page."""
    parts: list[Part] = [part for outcome in outcomes for part in outcome.parts]
    if shelf.missing:
        parts.append(Facts("Data sets that are missing", tuple(shelf.missing.items())))
    parts += how_it_was_run(
        {
            "seed": str(settings.seed),
            "protocol": settings.protocol,
            "quick": "yes" if settings.quick else "no",
            "workers": str(settings.workers),
            **{f"seconds for {o.name}": f"{o.seconds:.1f}" for o in outcomes},
        },
        commands=[settings.command] if settings.command else [],
    )
    page = Page(
        title="The paper's tables and figures, reproduced",
        introduction=f"Numbers of this library beside those of {CITATION}",
        parts=parts,
    )
    return write_page(page, folder)
