# SPDX-License-Identifier: BSD-3-Clause
"""The result of a solver: `Solution` and the `Trace` of its run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError


@dataclass
class Trace:
    """Counts, times and history of a run."""

    n_steps: int = 0
    #: Number of pairs whose gradient was computed.
    n_gradients: int = 0
    #: Steps at which an example met itself (i_t = i_{t-1}).
    n_repeats: int = 0
    seconds: float = 0.0
    #: (step, seconds, running pair risk) after each block, if there are callbacks and no pauses.
    history: list[tuple[int, float, float]] = field(default_factory=list)
    #: Whether Ctrl-C ended the run.
    interrupted: bool = False


@dataclass(frozen=True)
class Solution:
    """The result of a run."""

    #: The average by the averaging rule: the output of Algorithm 1.
    average: Vector
    #: The last iterate.
    w: Vector
    trace: Trace

    def __post_init__(self) -> None:
        if not (np.isfinite(self.average).all() and np.isfinite(self.w).all()):
            raise DivergenceError(
                f"The model is not finite after {self.trace.n_steps} steps: a product overflows; "
                "take a smaller step_size, a radius, or scale the features (StandardScaler)."
            )
