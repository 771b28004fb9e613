# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of methods on data sets, their statistics and their report.

A comparison is data sets x splits x methods. Each cell has its own random numbers, is measured on
its own and is stored as soon as it is done, so a run can be killed and taken up again, and its
numbers do not depend on the number of worker processes.
"""

from __future__ import annotations

from pairlearn.experiments.comparison.runner import HONEST, PAPER, Comparison, Protocol, compare
from pairlearn.experiments.methods.base import EstimatorMethod, Fitted, Method
from pairlearn.experiments.methods.table import find_method, method_names

__all__ = [
    "HONEST", "PAPER", "Comparison", "EstimatorMethod", "Fitted", "Method", "Protocol", "compare",
    "find_method", "method_names",
]  # fmt: skip
