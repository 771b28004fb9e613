# SPDX-License-Identifier: BSD-3-Clause
"""Large survival data: ``python -m benchmarks.survival_speed [--rows N]``.

Printed is the CPU time of the concordance index and of its interval for N examples (a million by
default).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    from pairlearn import ConcordanceIndex

    name = "python -m benchmarks.survival_speed"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args(arguments)
    rows = given.rows
    rng = np.random.default_rng(0)
    risk = rng.normal(size=rows)
    died, left = rng.exponential(np.exp(-risk)), rng.exponential(1.5, size=rows)
    y = np.empty(rows, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = died <= left, np.minimum(died, left)
    metrics = {"Harrell": ConcordanceIndex(), "Uno": ConcordanceIndex(ipcw=True, tau=2.0)}
    for name, metric in metrics.items():
        metric(y[:1000], risk[:1000])
        for what in (metric, metric.interval):
            begin = time.process_time()
            what(y, risk)
            label = "interval" if what == metric.interval else "index"
            print(f"{name}'s {label} of {rows:,} rows: {time.process_time() - begin:.2f} CPU s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
