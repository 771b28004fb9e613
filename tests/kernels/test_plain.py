# SPDX-License-Identifier: BSD-3-Clause
"""Kernels are plain loops: few arguments, no machine code but the call by address, one cache."""

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pairlearn
from pairlearn import kernels

SOURCE = Path(pairlearn.__file__).parent
RUN = """
import numpy as np
from pairlearn import Hinge, LinearScore, PairwiseSGD, Problem
from pairlearn.kernels.steps.dense import descend
X = np.eye(4)
PairwiseSGD().solve(Problem(LinearScore(), Hinge()), X, [1, -1, 1, -1], n_steps=5, rng=0)
print(sum(descend.stats.cache_hits.values()), sum(descend.stats.cache_misses.values()))
"""


def test_no_kernel_has_more_than_eighteen_arguments():
    n_kernels = 0
    for module in pkgutil.walk_packages(kernels.__path__, "pairlearn.kernels."):
        for function in vars(importlib.import_module(module.name)).values():
            if hasattr(function, "py_func"):
                n_kernels += 1
                assert len(inspect.signature(function.py_func).parameters) <= 18, function
    assert n_kernels > 20


def test_one_file_writes_machine_code():
    found = [p.name for p in SOURCE.rglob("*.py") if "llvmlite" in p.read_text(encoding="utf-8")]
    assert found == ["_native.py"]


def test_the_next_process_finds_the_code(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(SOURCE.parent)}

    def hits_and_misses():
        return subprocess.run(
            [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    assert hits_and_misses() == ["0", "1"]
    assert hits_and_misses() == ["1", "0"]
    # The code of other sources is in another folder.
    (folder,) = tmp_path.iterdir()
    folder.rename(tmp_path / "kernels-0123456789abcdef")
    assert hits_and_misses() == ["0", "1"]
