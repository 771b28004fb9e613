# SPDX-License-Identifier: BSD-3-Clause
"""AUC during training: curves over time or gradients, reported as the paper does and honestly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairlearn.experiments.comparison.runner import Comparison
from pairlearn.typing import Vector


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Means over splits at each checkpoint of one method on one data set (one split: sd NaN)."""

    dataset: str
    method: str
    cpu_seconds: Vector
    n_gradients: Vector
    auc_mean: Vector
    auc_sd: Vector
    n_splits: int

    @property
    def as_published(self) -> tuple[float, float]:
        """The highest mean and the lowest standard deviation over all checkpoints."""
        return float(self.auc_mean.max()), float(self.auc_sd.min())


def trajectories(comparison: Comparison) -> list[Trajectory]:
    """Return the trajectories of a comparison, for methods that record checkpoints.

    Raises `ValueError` if a method recorded different numbers of checkpoints on different splits,
    since there is then no common time to average at.
    """
    found = []
    for dataset, method, results in comparison.by_method():
        paths = [result.checkpoints for result in results if result.checkpoints]
        if not paths:
            continue
        lengths = sorted({len(path) for path in paths})
        if len(lengths) > 1:
            raise ValueError(
                f"{method} recorded {', '.join(map(str, lengths))} checkpoints on different "
                f"splits of {dataset}; record at the same steps on every split."
            )
        points = np.asarray(paths, dtype=np.float64)
        n_splits = len(points)
        auc_sd = np.full(points.shape[1], np.nan)
        if n_splits > 1:
            auc_sd = points[:, :, 2].std(axis=0, ddof=1)
        seconds, gradients, auc = (points[:, :, k].mean(axis=0) for k in range(3))
        found.append(Trajectory(dataset, method, seconds, gradients, auc, auc_sd, n_splits))
    return found
