# SPDX-License-Identifier: BSD-3-Clause
"""Files to a trained model by the program's own route: the online learner, everything included.

Unlike ``readers``, which feeds the bare solver, this is what ``pairlearn train`` runs: the choice
of the step size on the first examples, progressive AUC, threshold and calibration. The rivals read
the same file with pandas (CSV), PyArrow and pandas (Parquet) or ``load_svmlight_file`` and learn
with ``SGDClassifier.partial_fit``.
Ratios are of processor time and of the clock, see ``readers``.

A CSV file of 5 GB is then trained on inside an address-space limit of 512 MB, as in an
installation without extras, and inside 1,000 MB through 512 Fourier features, by moments; it is
made of one block of rows written again and again. With ``--quick`` this is left out.

Run alone with ``python -m benchmarks --only files``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.readers import CASES, D, open_ours, to_a_model, write_files
from benchmarks.report import Effort, Row

LIMIT_MB = 512
#: The limit where rows are mapped to so many features.
MAPPED_LIMIT_MB, N_FEATURES = 1000, 512
#: Not needed for CSV: scikit-learn imports them where they are installed, and the libraries of
#: PyArrow alone take 300 MB of addresses. An installation without extras does not have them.
_EXTRAS = ("pandas", "pyarrow", "polars", "matplotlib")


def run(effort: Effort) -> list[Row]:
    """Compare rows per CPU second, growth of memory with the file, and the limit."""
    n = effort.pick(60_000, 300_000)
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "1"), Path(folder, "3")
        write_files(large, n)
        rows = []
        for case in CASES:
            rows += to_a_model(case, large, n, effort, "OnlineLearner", train)
        if effort.quick:
            # Long files show what memory does.
            return rows
        write_files(small, n // 3)
        for name in ("six.csv", "a.svm", "a.parquet", "X.npy"):
            one, three = (_measure(path / name)["VmHWM"] for path in (small, large))
            rows.append(
                Row(
                    f"{name}: growth of peak memory ({one:.0f} MB), file 3 times as long / 20 MB",
                    max(three - one, 0.1), 20.0, "MB", 1, 0.5, at_most=True,
                )
            )  # fmt: skip
        rows += _inside_limits(Path(folder, "large.csv"), 5000)
    return rows


def train(path: Path, n_features: int = 0) -> float | None:
    """Learn from every row of a file as ``pairlearn train`` does; return the running AUC.

    With `n_features` rows go through so many Fourier features, and their moments are learned.
    """
    from pairlearn import AUCClassifier, OnlineLearner
    from pairlearn.features import RandomFourier

    classes = (-1.0, 1.0) if path.suffix == ".svm" else (0.0, 1.0)
    parts: dict[str, Any] = {}
    if n_features:
        parts = {"features": RandomFourier(n_features), "solver": "moments"}
    learner = OnlineLearner(AUCClassifier(random_state=0, **parts), classes=classes)
    learner.fit_stream(open_ours(path))
    learner.model.to_record()
    return learner.auc


def _inside_limits(path: Path, megabytes: int) -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, D))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(np.int64)
    lines = [
        f"{label}," + ",".join([f"{v:.6f}" for v in row])
        for label, row in zip(y.tolist(), X.tolist(), strict=True)
    ]
    block = ("\n".join(lines) + "\n").encode()
    with open(path, "wb") as file:
        file.write((",".join(["y", *(f"f{j}" for j in range(D))]) + "\n").encode())
        while file.tell() < megabytes * 1e6:
            file.write(block)
    size = path.stat().st_size / 1e6
    rows = []
    for limit, n_features in ((LIMIT_MB, 0), (MAPPED_LIMIT_MB, N_FEATURES)):
        found = _measure(path, limit_mb=limit, n_features=n_features)
        through = f", through {n_features} features" if n_features else ""
        rows.append(
            Row(
                f"CSV of {size:.0f} MB inside {limit} MB of address space{through} "
                f"({found['seconds']:.0f} s of CPU, AUC {found['auc']:.3f}): peak / {limit} MB",
                found["VmPeak"], limit, "MB", 1, 1, at_most=True,
            )
        )  # fmt: skip
    path.unlink()
    return rows


def _measure(path: Path, *, limit_mb: int = 0, n_features: int = 0) -> dict[str, float]:
    """Return memory peaks in MB of a fresh process that learns from a file."""
    code = f"from benchmarks.files import show; show({str(path)!r}, {limit_mb}, {n_features})"
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, **single, "PYTHONPATH": paths},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    names, values = (line.split() for line in done.stdout.splitlines()[-2:])
    return dict(zip(names, map(float, values), strict=True))


def show(path: str, limit_mb: int, n_features: int) -> None:
    """Learn from a file, inside a limit, and print the peaks of this process."""
    if limit_mb:
        for name in _EXTRAS:
            sys.modules[name] = None  # type: ignore[assignment]
        resource.setrlimit(resource.RLIMIT_AS, (limit_mb << 20, limit_mb << 20))
    auc = train(Path(path), n_features)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peaks = {
        name: float(status.partition(f"{name}:")[2].split()[0]) / 1024
        for name in ("VmHWM", "VmPeak")
    }
    peaks["auc"] = 0.0 if auc is None else auc
    peaks["seconds"] = time.process_time()
    print(*peaks)
    print(*peaks.values())
