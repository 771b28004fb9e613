# SPDX-License-Identifier: BSD-3-Clause
"""Compare methods on data sets, with statistics and a report.

A comparison is data sets x splits x methods. Each cell has its own random numbers, is measured
separately and is stored as soon as it is done. So a run can be killed and resumed, and its numbers
do not depend on the number of worker processes. `comparison` runs cells and counts, `methods` has
what is compared, `report` makes pages, `paper` the tables and figures of the paper.
"""

from __future__ import annotations

from pairlearn.experiments.comparison.cell import Protocol
from pairlearn.experiments.comparison.runner import HONEST, PAPER, Comparison, compare
from pairlearn.experiments.methods.base import EstimatorMethod, Fitted, Method
from pairlearn.experiments.methods.table import find_method, method_names

__all__ = [
    "HONEST", "PAPER", "Comparison", "EstimatorMethod", "Fitted", "Method", "Protocol", "compare",
    "find_method", "method_names",
]  # fmt: skip
