# SPDX-License-Identifier: BSD-3-Clause
"""What a program pays before its first result: import and first fit from a warm cache."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

_DATA = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 22))
y = np.where(X[:, 0] + rng.normal(size=1000) > 0, 1.0, -1.0)
"""

PROGRAMS = {
    "solver": _DATA
    + """
from pairlearn import Ball, Constant, Hinge, LinearScore, PairwiseSGD, Problem
solver = PairwiseSGD(schedule=Constant(0.1), domain=Ball(10.0))
solver.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=1000, rng=0)
""",
    "estimator": _DATA
    + """
from pairlearn import SGD, AUCClassifier
AUCClassifier(solver=SGD(step_size=0.1, radius=10.0, n_passes=1), random_state=0).fit(X, y)
""",
    "default": _DATA
    + """
from pairlearn import AUCClassifier
AUCClassifier(random_state=0).fit(X, y)
""",
    "rival": "import sklearn.linear_model",
}


def run(effort: Effort) -> list[Row]:
    """Compare whole processes; the first run of each fills the caches and does not count."""
    with tempfile.TemporaryDirectory() as bytecode:
        best = best_of(
            {
                name: lambda program=program: _run(program, bytecode)
                for name, program in PROGRAMS.items()
            },
            seconds=0.0,
            min_rounds=effort.pick(1, 7),
            clock=_children,
        )
    ms = {name: 1e3 * seconds for name, seconds in best.items()}
    return [
        Row(
            f"new process: import and first {what} / import sklearn.linear_model",
            ms[name],
            ms["rival"],
            "ms",
            1.1,
            1.0,
            at_most=True,
        )
        for name, what in (
            ("solver", "PairwiseSGD.solve"),
            ("estimator", "AUCClassifier.fit by descent"),
            ("default", "AUCClassifier.fit"),
        )
    ]


def _run(program: str, bytecode: str) -> None:
    """Run a program as an installed package would: its bytecode is on the disk."""
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={
            **os.environ,
            **single,
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": bytecode,
        },
    )


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
