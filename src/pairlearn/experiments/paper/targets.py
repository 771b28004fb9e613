# SPDX-License-Identifier: BSD-3-Clause
"""The targets of `pairlearn reproduce`, by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pairlearn.experiments.paper.auc_tables import auc_table
from pairlearn.experiments.paper.figures import (
    hinge_figure,
    loglink_figure,
    sampling_figure,
    square_figure,
)
from pairlearn.experiments.paper.outcome import Outcome, Settings, Shelf
from pairlearn.experiments.paper.private_regimes import private_planner, private_regimes
from pairlearn.experiments.paper.private_tables import private_auc, private_mechanisms, private_time
from pairlearn.experiments.published import CITATION
from pairlearn.experiments.report.page import Facts, Page, Part, write_page
from pairlearn.experiments.report.sections import how_it_was_run

#: The paper's tables and figures, in the order of `all`.
PAPER: dict[str, Callable[[str, Settings, Shelf], Outcome]] = {
    "table1": auc_table,
    "table-rs1": auc_table,
    "table-dp-diabetes": private_auc,
    "table-dp-german": private_auc,
    "table-dp-time": private_time,
    "fig-hinge": hinge_figure,
    "fig-hinge-more": hinge_figure,
    "fig-square": square_figure,
    "fig-sampling": sampling_figure,
    "fig-loglink": loglink_figure,
}

#: All targets; some are tables of the documentation that the paper lacks.
TARGETS = {
    **PAPER,
    "private-mechanisms": private_mechanisms,
    "private-add-remove": private_mechanisms,
    "private-regimes": private_regimes,
    "private-planner": private_planner,
}


def reproduce(names: Sequence[str], settings: Settings, shelf: Shelf) -> Iterator[Outcome]:
    """Yield the outcomes of the targets ("all": the paper's), each as soon as it is ready."""
    chosen = list(PAPER) if "all" in names else list(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in TARGETS]
    if unknown:
        raise ValueError(
            f"there is no {unknown[0]!r} to reproduce; choose from {', '.join(TARGETS)} and all."
        )
    for name in chosen:
        begin = time.perf_counter()
        outcome = TARGETS[name](name, settings, shelf)
        yield replace(outcome, seconds=time.perf_counter() - begin)


def write_reproduction(
    outcomes: Sequence[Outcome], folder: str | Path, *, settings: Settings, shelf: Shelf
) -> Path:
    """Write the page of all outcomes and its CSV files; return the path of the page."""
    parts: list[Part] = []
    for outcome in outcomes:
        parts += outcome.parts
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
