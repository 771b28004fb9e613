# SPDX-License-Identifier: BSD-3-Clause
"""One more pass over a file: our online learner on ``.npy``, Vowpal Wabbit on its own cache.

Both have the same rows in a binary file that is theirs, read it again in every pass and learn
from each row once: Vowpal Wabbit from the cache that it wrote in its first pass, with hinge loss,
by its default updates and by plain SGD (``--sgd``); we by ``OnlineLearner.fit_stream``, progressive
AUC included. A cache holds single precision, so ours is measured in both. The time of a pass is
the difference of a long and a short run: opening files and the choice of the step size are left
out. The clock counts the CPU time of all threads of the process.

Run alone with ``python -m benchmarks --only vowpal_wabbit``; needs ``vowpalwabbit``
(extra ``benchmark``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import Effort, Row, UnavailableError
from benchmarks.timing import marginal

D = 28
PASSES = (2, 6)


def run(effort: Effort) -> list[Row]:
    """Compare the CPU time of a row in one further pass."""
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        raise UnavailableError(
            "it needs Vowpal Wabbit; install pairlearn[benchmark] (wheels exist for some Pythons)"
        ) from None
    n = effort.pick(20_000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), n)
        best = marginal(
            {
                "float64": (_ours(Path(folder, "float64.npy")), *PASSES),
                "float32": (_ours(Path(folder, "float32.npy")), *PASSES),
                "default": (_rival(Path(folder), n, ""), *PASSES),
                "--sgd": (_rival(Path(folder), n, "--sgd"), *PASSES),
            },
            seconds=effort.seconds,
        )
    micro = 1e6 / n
    return [
        Row(
            f"a pass over {kind} .npy by OnlineLearner / Vowpal Wabbit ({updates}), cached, a row",
            micro * best[kind], micro * best[updates], "us", 3, 5,
        )
        for kind in ("float64", "float32")
        for updates in ("default", "--sgd")
    ]  # fmt: skip


def write_files(folder: Path, n_rows: int) -> None:
    """Write the same rows as arrays and as text of Vowpal Wabbit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, D)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=n_rows) > 0).astype(np.int64)
    np.save(folder / "float64.npy", X.astype(np.float64))
    np.save(folder / "float32.npy", X)
    np.save(folder / "y.npy", y)
    with open(folder / "a.vw", "w", encoding="utf-8") as file:
        for label, row in zip(y.tolist(), X.tolist(), strict=True):
            entries = [f" {j}:{v!r}" for j, v in enumerate(row)]
            file.write(f"{2 * label - 1} |" + "".join(entries) + "\n")


def _ours(path: Path) -> Callable[[int], object]:
    from pairlearn import AUCClassifier, OnlineLearner
    from pairlearn.streams import NpyReader

    def learn(n_passes: int) -> float | None:
        dtype = "float32" if path.stem == "float32" else "float64"
        reader = NpyReader(path, path.with_name("y.npy"), dtype=dtype)
        learner = OnlineLearner(AUCClassifier(random_state=0), classes=(0.0, 1.0))
        return learner.fit_stream(reader, n_passes=n_passes).auc

    return learn


def _rival(folder: Path, n_rows: int, updates: str) -> Callable[[int], object]:
    from vowpalwabbit import pyvw

    def learn(n_passes: int) -> None:
        # The first call writes the cache, the others read it.
        model = pyvw.Workspace(
            f"-d {folder / 'a.vw'} --cache_file {folder / 'a.cache'} --passes {n_passes} "
            f"--holdout_off --loss_function hinge --quiet {updates}"
        )
        seen = model.get_weighted_examples()
        model.finish()
        if seen != n_passes * n_rows:
            raise RuntimeError(f"Vowpal Wabbit has seen {seen} rows in {n_passes} passes.")

    return learn
