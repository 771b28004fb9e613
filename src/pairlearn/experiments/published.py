# SPDX-License-Identifier: BSD-3-Clause
"""The numbers that the paper publishes (``published.toml``), and a comparison of ours with them.

The plus-minus is the paper's standard deviation over runs, which is rather small: see `auc_tables`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

CITATION = (
    "Z. Yang, Y. Lei, P. Wang, T. Yang, Y. Ying. Simple Stochastic and Online Gradient Descent "
    "Algorithms for Pairwise Learning. NeurIPS 2021, arXiv:2111.12050."
)


def mean_sd(mean: float, sd: float, digits: int = 3) -> str:
    """Return a mean with its standard deviation; a single split has none.

    >>> mean_sd(0.93, 0.005), mean_sd(0.93, math.nan)
    ('0.930 +- 0.005', '0.930')
    """
    return f"{mean:.{digits}f}" + ("" if math.isnan(sd) else f" +- {sd:.{digits}f}")


@dataclass(frozen=True)
class Published:
    """A published mean and standard deviation."""

    mean: float
    sd: float


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper; `where` is its label there, `rows` have one value per column."""

    name: str
    caption: str
    where: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[Published, ...]]

    def cells(self) -> dict[tuple[str, str], Published]:
        """Return every cell by (row, column)."""
        return {
            (row, column): value
            for row, values in self.rows.items()
            for column, value in zip(self.columns, values, strict=True)
        }


def _read() -> dict[str, PublishedTable]:
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return {
        name: PublishedTable(
            name,
            table["caption"],
            table["where"],
            tuple(table["columns"]),
            {row: tuple(Published(*v) for v in values) for row, values in table["rows"].items()},
        )
        for name, table in tomllib.loads(text).items()
    }


#: All published tables by name.
TABLES = _read()


def published_table(name: str) -> PublishedTable:
    """Return a published table by name."""
    if name not in TABLES:
        raise ValueError(f"no published table is called {name!r}; there are {', '.join(TABLES)}.")
    return TABLES[name]


@dataclass(frozen=True)
class Beside:
    """Our number beside the published one, both as printed, with three digits."""

    row: str
    column: str
    mean: float
    sd: float
    published: Published

    @property
    def difference(self) -> float:
        """Ours minus the paper's."""
        return round(self.mean, 3) - self.published.mean

    @property
    def verdict(self) -> str:
        """Say "within", "above" or "below" one published standard deviation."""
        if abs(round(self.difference, 3)) <= self.published.sd + 1e-9:
            return "within"
        return "above" if self.difference > 0 else "below"


def beside(
    table: PublishedTable, ours: Mapping[tuple[str, str], tuple[float, float]]
) -> list[Beside]:
    """Return our (mean, sd) by (row, column) beside the published ones, in the table's order.

    Cells that either side lacks are left out.
    """
    cells = table.cells()
    return [Beside(*cell, *ours[cell], cells[cell]) for cell in cells if cell in ours]
