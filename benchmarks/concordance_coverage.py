# SPDX-License-Identifier: BSD-3-Clause
"""How often intervals of the concordance index hold the truth, down to 30 events.

``python -m benchmarks.concordance_coverage [--trials N]``. Risks are normal, times exponential with
a hazard of e^(slope * risk), and the end of observation is log-normal. The slope gives the wanted
index without censoring, and the end the wanted share of events. Printed is, for Harrell's and for
Uno's index (up to the time that 80 % do not reach), the index of 400,000 examples and the share of
N trials whose interval of level .95 holds it. A share of .95 has a standard deviation of
.22 / sqrt(N).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

INDICES = (0.6, 0.7, 0.8, 0.9, 0.97)
#: Expected events, and examples.
SIZES = ((30, 40), (30, 100), (30, 300), (100, 300))


def _solved(share: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Return where an increasing function has a value."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) < wanted else (low, middle)
    return 0.5 * (low + high)


def slope_of(index: float) -> float:
    """Return the slope that gives an index without censoring."""
    gaps = np.abs(np.random.default_rng(1).normal(size=100_000)) * np.sqrt(2.0)
    return _solved(lambda slope: float(np.mean(1.0 / (1.0 + np.exp(-slope * gaps)))), index, 0, 100)


def end_of(slope: float, share: float) -> float:
    """Return the log of the middle end of observation, by the share of events."""
    rng, n = np.random.default_rng(2), 100_000
    times = np.log(rng.exponential(size=n)) - slope * rng.normal(size=n)
    ends = 0.5 * rng.normal(size=n)
    return _solved(lambda end: float(np.mean(times <= ends + end)), share, -50, 50)


def sample(rng: np.random.Generator, n: int, slope: float, end: float) -> tuple[Any, Any]:
    """Return events and times, and risks."""
    risk = rng.normal(size=n)
    died = rng.exponential(size=n) * np.exp(-slope * risk)
    left = np.exp(0.5 * rng.normal(size=n) + end)
    return np.column_stack((died <= left, np.minimum(died, left))), risk


def coverage(
    index: float, size: tuple[int, int], n_trials: int, *, ipcw: bool = False
) -> tuple[float, float]:
    """Return the true index of a place and the share of trials that hold it."""
    from pairlearn.metrics import ConcordanceIndex

    events, n = size
    slope = slope_of(index)
    end = end_of(slope, events / n)
    rng = np.random.default_rng([events, n, round(1000 * index)])
    tau = None
    if ipcw:
        tau = float(np.quantile(sample(rng, 100_000, slope, end)[0][:, 1], 0.8))
    metric = ConcordanceIndex(ipcw=ipcw, tau=tau)
    truth = metric(*sample(rng, 400_000, slope, end))
    found = [metric.interval(*sample(rng, n, slope, end)) for _ in range(n_trials)]
    return truth, float(np.mean([one.low <= truth <= one.high for one in found]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.concordance_coverage", description=__doc__
    )
    parser.add_argument("--trials", type=int, default=2000, help="trials of each place")
    options = parser.parse_args(arguments)
    print("| index | C without censoring | " + " | ".join(f"{e} of {n}" for e, n in SIZES) + " |")
    print("| --- " * (2 + len(SIZES)) + "|")
    for ipcw in (False, True):
        for index in INDICES:
            cells = [coverage(index, size, options.trials, ipcw=ipcw) for size in SIZES]
            line = " | ".join(f"{share:.3f} (C {truth:.3f})" for truth, share in cells)
            print(f"| {'Uno' if ipcw else 'Harrell'} | {index} | {line} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
