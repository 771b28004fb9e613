# SPDX-License-Identifier: BSD-3-Clause
"""What a benchmark hands back, and how it is shown."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

__all__ = ["Effort", "Row", "UnavailableError", "describe_machine", "table"]


class UnavailableError(Exception):
    """The benchmark cannot run here (no compiler, say); the text says why."""


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    quick: bool = False

    @property
    def seconds(self) -> float:
        """CPU seconds for one set of interleaved timings, beyond the least number of rounds."""
        return 0.4 if self.quick else 6.0

    def pick(self, quick: int, full: int) -> int:
        """Return one of two sizes."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Row:
    """One comparison.

    `ours` and `rival` are in `unit`. The ratio is rival / ours and should be at least `bar`
    (`goal` is what we are after), or, with ``at_most``, ours / rival and at most `bar`.
    """

    name: str
    ours: float
    rival: float
    unit: str
    bar: float
    goal: float
    at_most: bool = False

    @property
    def ratio(self) -> float:
        """How many times faster (or, with ``at_most``, dearer) we are."""
        return self.ours / self.rival if self.at_most else self.rival / self.ours

    @property
    def ok(self) -> bool:
        """Whether the bar holds."""
        return self.ratio <= self.bar if self.at_most else self.ratio >= self.bar

    @property
    def reaches_goal(self) -> bool:
        """Whether the goal is reached."""
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal

    def as_dict(self) -> dict[str, Any]:
        """Return fields and verdicts for JSON."""
        return asdict(self) | {
            "ratio": self.ratio,
            "ok": self.ok,
            "reaches_goal": self.reaches_goal,
        }


def describe_machine() -> dict[str, str]:
    """Return processor, Python and library versions."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.lower().startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def table(rows: list[Row]) -> Any:
    """Return a rich table of the rows."""
    from rich.table import Table

    shown = Table("comparison", title="CPU time of one thread; ratios within one run")
    for heading in ("ours", "rival", "unit", "ratio", "bar", "goal", ""):
        shown.add_column(heading, justify="left" if heading in ("unit", "") else "right")
    for row in rows:
        sign = "<=" if row.at_most else ">="
        verdict = "[green]goal" if row.ok and row.reaches_goal else "[green]ok"
        shown.add_row(
            row.name,
            f"{row.ours:.4g}",
            f"{row.rival:.4g}",
            row.unit,
            f"{row.ratio:.2f}",
            f"{sign} {row.bar:g}",
            f"{sign} {row.goal:g}",
            verdict if row.ok else "[bold red]BELOW BAR",
        )
    return shown
