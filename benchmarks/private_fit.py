# SPDX-License-Identifier: BSD-3-Clause
"""What secure noise costs: a private fit of 256 examples with 8 features."""

from __future__ import annotations

from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

#: What a secure fit of this size may take.
_MOST_MS = 6.0


def run(effort: Effort) -> list[Row]:
    """Compare discrete noise with floating-point noise, and with what a fit may take."""
    import numpy as np

    from pairlearn import PrivateAUCClassifier

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 256)
    X = np.clip(rng.normal(size=(256, 8)) + y[:, None], -4.0, 4.0)
    secure, floating = (
        PrivateAUCClassifier(1.0, 1e-4, bounds=(-4.0, 4.0), secure=choice)
        for choice in (True, False)
    )
    best = best_of(
        {"secure": lambda: secure.fit(X, y), "floating": lambda: floating.fit(X, y)},
        seconds=effort.seconds / 3.0,
    )
    ms = {name: 1e3 * seconds for name, seconds in best.items()}
    name = "private fit of 256 x 8, discrete noise"
    return [
        Row(f"{name} / floating-point noise", ms["secure"], ms["floating"], "ms", 4.0, 2.0,
            at_most=True),
        Row(f"{name} / {_MOST_MS:g} ms", ms["secure"], _MOST_MS, "ms", 1.0, 0.7, at_most=True),
    ]  # fmt: skip
