# SPDX-License-Identifier: BSD-3-Clause
"""A progress bar for a run, on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from pairlearn.solvers.running import Running

__all__ = ["ProgressBar"]


class ProgressBar:
    """A callback that draws steps, the running pair risk and the held-out AUC.

    Parameters
    ----------
    n_steps : int
        The number of steps of the run.
    held_out_auc : float or None
        The AUC by which step size and radius were chosen, shown as a constant.
    """

    def __init__(self, n_steps: int, held_out_auc: float | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns: list[Any] = [
            TextColumn("{task.completed:,}/{task.total:,} steps"),
            BarColumn(),
            TextColumn("pair risk {task.fields[risk]:.4g}"),
        ]
        if held_out_auc is not None:
            columns.append(TextColumn(f"held-out AUC {held_out_auc:.4f}"))
        self._progress = Progress(
            *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=False
        )
        self._task = self._progress.add_task("", total=n_steps, risk=float("nan"))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, running: Running) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=running.step, risk=running.risk)
