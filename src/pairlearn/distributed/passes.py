# SPDX-License-Identifier: BSD-3-Clause
"""An engine is one function: from a statistic to the merged state of all partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.scales import MajorityCounts, Scales
from pairlearn.estimators.shared.scaling import Scaling

__all__ = ["Pass", "Passes", "scaling_by_passes"]

#: Runs a statistic over all partitions and returns the merged state.
Pass = Callable[[Statistic], State]


class Passes:
    """Runs passes, counts them and tells what they are for.

    Parameters
    ----------
    run : callable
        The engine.
    progress : callable, optional
        Called before each pass with its number and its purpose.
    """

    def __init__(self, run: Pass, progress: Callable[[int, str], None] | None = None) -> None:
        self._run, self._progress, self.n_passes = run, progress, 0

    def __call__(self, statistic: Statistic, purpose: str) -> Any:
        """Return what a statistic says of all partitions."""
        self.n_passes += 1
        if self._progress is not None:
            self._progress(self.n_passes, purpose)
        return statistic.finish(self._run(statistic))


def scaling_by_passes(
    scales: Scales,
    scaled: bool,
    passes: Passes,
    *,
    of: Callable[[Statistic], Statistic] = lambda statistic: statistic,
) -> Scaling:
    """Return the scaling of all rows, one that changes nothing if none is asked for.

    `of` narrows a statistic to the rows that the scales are about.
    """
    if not scaled:
        ones = np.ones(len(scales.atom))
        return Scaling(ones, np.zeros_like(ones), ones)
    counts = None
    if scales.needs_counts:
        counts = passes(of(MajorityCounts(scales)), "frequent values")
    return scales.scaling(counts)
