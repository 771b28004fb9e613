# SPDX-License-Identifier: BSD-3-Clause
"""How cost and memory grow with every size that a user can make large.

Each row is one entry point and one size. Its figure is the exponent of growth: the slope, in
logarithms, between the two largest of several sizes. 1 is linear; what a call costs however small
its data are only lowers the exponent. The bar is 1.15. Where a cost is larger by nature, the row
says so ("by design"), with what bounds it, and its bar is the exponent of that nature.

CPU seconds are the least of several runs; bytes are the peak of what Python and NumPy allocate.

Run alone with ``python -m benchmarks --only growth``.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Effort, Row

#: The largest exponent of a cost that is linear.
BAR = 1.15
#: Work of a size that is ready to be run any number of times; files may lie in the folder.
Make = Callable[[int, Path], Callable[[], object]]


@dataclass(frozen=True)
class Case:
    """An entry point, the size that grows, and how to make work of that size.

    `sizes` grow by a constant factor. `power` is the exponent of cost and memory by `design`, a
    text that also names the bound of the size.
    """

    name: str
    grows: str
    sizes: Sequence[int]
    make: Make
    power: float = 1.0
    design: str = ""

    @property
    def title(self) -> str:
        """The name of the row."""
        return f"{self.name}, {self.grows}" + (f" (by design: {self.design})" * bool(self.design))


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of the logarithm of the costs at the upper end.

    >>> exponent([10, 20, 40], [1.0, 2.0, 8.0])
    2.0
    """
    rise = math.log(max(costs[-1], 1e-9) / max(costs[-2], 1e-9))
    return rise / math.log(sizes[-1] / sizes[-2])


def run(effort: Effort) -> list[Row]:
    """Measure the exponents of all cases."""
    # SciPy brings a second BLAS, whose threads the limit of the whole run has not seen.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    found: list[Row] = []
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        open(os.devnull, "w", encoding="utf-8") as null,
    ):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
            for case in CASES:
                found += measured(case, effort)
    return found


def measured(case: Case, effort: Effort) -> list[Row]:
    """Return the rows of a case: seconds and bytes."""
    sizes = case.sizes[:-1] if effort.quick else case.sizes
    seconds, peaks = [], []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes[-3:]:
            work = case.make(size, Path(folder))
            work()  # compiles, imports and fills caches
            seconds.append(min(_seconds(work) for _ in range(effort.pick(2, 3))))
            peaks.append(_peak(work))
    sizes, bar = sizes[-3:], case.power + BAR - 1.0
    return [
        Row(f"{case.title}: {what}", exponent(sizes, costs), 1.0, "exponent", bar, bar, True)
        for what, costs in (("seconds", seconds), ("bytes", peaks))
    ]


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _peak(work: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        work()
        # A small constant keeps the noise of a few kilobytes from looking like growth.
        return float(tracemalloc.get_traced_memory()[1]) + 1e5
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------- estimators


def _examples(n: int, d: int, k: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.arange(n) % k
    X[:, 0] += y
    return X, y


def _fit(
    name: str, *, by: str, n: int = 5, d: int = 5, k: int = 2, sparse: bool = False, **options: Any
) -> Make:
    """Return work that fits an estimator to n rows, d columns and k classes; one of them grows."""

    def make(size: int, folder: Path) -> Callable[[], object]:
        from scipy.sparse import csr_matrix

        import pairlearn

        sizes = {"n": n, "d": d, "k": k, by: size}
        X, y = _examples(**sizes)
        model = getattr(pairlearn, name)(random_state=0, **options)
        data = csr_matrix(X) if sparse else X
        return lambda: model.fit(data, y)

    return make


def _stream(by: str, **options: Any) -> Make:
    def make(size: int, folder: Path) -> Callable[[], object]:
        from pairlearn import AUCClassifier

        X, y = _examples(**{"n": 20, "d": 5, by: size})
        model = AUCClassifier(random_state=0, **options).partial_fit(X, y, classes=[0, 1])
        return lambda: model.partial_fit(X, y)

    return make


def _predict(by: str) -> Make:
    def make(size: int, folder: Path) -> Callable[[], object]:
        from pairlearn import AUCClassifier

        X, y = _examples(**{"n": 20, "d": 5, by: size})
        model = AUCClassifier(random_state=0).fit(X[:2000], y[:2000])
        return lambda: model.predict_proba(X)

    return make


def _saved(what: str) -> Make:
    """Return work that saves or loads a model of so many columns."""

    def make(size: int, folder: Path) -> Callable[[], object]:
        from pairlearn import AUCClassifier, load_model

        X, y = _examples(5, size)
        path = folder / "model.safetensors"
        model = AUCClassifier(random_state=0).fit(X, y)
        model.save(path)
        return (lambda: model.save(path)) if what == "save" else (lambda: load_model(path))

    return make


# ---------------------------------------------------------------------------------------- metrics


def _metric(name: str) -> Make:
    def make(size: int, folder: Path) -> Callable[[], object]:
        from pairlearn import metrics

        X, y = _examples(size, 2)
        if name == "PartialAUC":
            return lambda: metrics.PartialAUC(max_fpr=0.1).interval(y, X[:, 0])
        if name == "compare_auc":
            return lambda: metrics.compare_auc(y, X[:, 0], X[:, 1])
        return lambda: getattr(metrics, name)(y, X[:, 0])

    return make


def _hand_till(size: int, folder: Path) -> Callable[[], object]:
    from pairlearn import HandTill

    X, y = _examples(10 * size, size, size)
    return lambda: HandTill().interval(y, X)


def _ratings(by: str, **sizes: int) -> Make:
    """Return work that rates players by votes, with intervals; votes or players grow."""

    def make(size: int, folder: Path) -> Callable[[], object]:
        from pairlearn import PairwiseRatings

        n = {**sizes, by: size}
        rng = np.random.default_rng(0)
        first = rng.integers(0, n["players"], n["votes"])
        second = (first + rng.integers(1, n["players"], n["votes"])) % n["players"]
        won = (rng.random(n["votes"]) < 0.5).astype(np.float64)
        return lambda: PairwiseRatings().fit(first, second, won).scores_

    return make


def _models(size: int, folder: Path) -> Callable[[], object]:
    from pairlearn import Hinge, LinearScore, Problem
    from pairlearn.solvers import Sweep

    X, y = _examples(2_000, 5)
    steps = tuple(np.geomspace(1e-3, 1.0, size).tolist())
    problem, signs = Problem(LinearScore(), Hinge()), np.where(y, 1.0, -1.0)
    sweep = Sweep(steps, (10.0,) * size)
    return lambda: sweep.solve(problem, X, signs, n_steps=4_000, rng=0)


def _partitions(size: int, folder: Path) -> Callable[[], object]:
    """Return work that trains on a cluster of one thread of this process."""
    import dask.array as da

    from distributed import Client
    from pairlearn import AUCClassifier
    from pairlearn.cluster import OnDask, fit_on

    X, y = _examples(20 * size, 5)
    rows, labels = da.from_array(X, chunks=(20, -1)), da.from_array(y, chunks=20)

    def work() -> None:
        with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
            fit_on(OnDask(rows, labels), AUCClassifier(random_state=0))

    return work


# ------------------------------------------------------------------------------------------ files


def _write(path: Path, X: Any, y: Any) -> Path:
    names = [f"c{j}" for j in range(X.shape[1])]
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join([*names, "y"]) + "\n")
        for x, label in zip(X.round(2).tolist(), y.tolist(), strict=True):
            file.write(",".join(map(str, x)) + f",{label}\n")
    return path


def _read(kind: str, by: str) -> Make:
    """Return work that reads a file with a compiled reader."""

    def make(size: int, folder: Path) -> Callable[[], object]:
        from pairlearn import Schema, open_reader

        X, y = _examples(**{"n": 20, "d": 5, by: size})
        path = folder / f"data.{kind}"
        if kind == "csv":
            _write(path, X, y)
        elif kind == "svm":
            with open(path, "w", encoding="utf-8") as file:
                for x, label in zip(X.round(2).tolist(), y.tolist(), strict=True):
                    fields = " ".join(f"{j}:{value}" for j, value in enumerate(x, 1))
                    file.write(f"{label} {fields}\n")
        else:
            import pyarrow
            import pyarrow.parquet

            columns = {f"c{j}": X[:, j] for j in range(X.shape[1])}
            pyarrow.parquet.write_table(pyarrow.table({**columns, "y": y}), path)
        format_ = {"svm": "svmlight"}.get(kind, kind)
        given = () if kind == "svm" else (Schema(label="y"),)
        return lambda: [len(chunk.y) for chunk in open_reader(path, *given, format=format_)]

    return make


def _category(size: int, folder: Path) -> Path:
    """Write a table whose category has one level for each two rows."""
    path = folder / "levels.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write("city,age,y\n")
        file.writelines(f"town {k // 2},{k % 71}.5,{(k // 2) % 2}\n" for k in range(2 * size))
    return path


def _long_field(size: int, folder: Path) -> Path:
    """Write a table with one long field."""
    path = folder / "long.csv"
    lines = "".join(f"text number {k},{k % 7}.5,{k % 2}\n" for k in range(40))
    path.write_text(f"note,age,y\n{'word ' * size},3.5,1\n{lines}", encoding="utf-8")
    return path


def _wide(size: int, folder: Path) -> Path:
    return _write(folder / "wide.csv", *_examples(6, size))


def _long(size: int, folder: Path) -> Path:
    return _write(folder / "long.csv", *_examples(size, 4))


def call(*arguments: object) -> None:
    """Run a command of the program in this process."""
    from pairlearn.cli.program import program

    status = program.main(args=[str(argument) for argument in arguments], standalone_mode=False)
    if status:
        raise RuntimeError(
            f"pairlearn {arguments[0]} ended with status {status}; nothing is measured."
        )


def _command(write: Callable[[int, Path], Path], *before: str, model: bool = False,
             data: bool = True) -> Make:  # fmt: skip
    """Return work that runs a command on a file, after training a model on it if it needs one."""

    def make(size: int, folder: Path) -> Callable[[], object]:
        path, trained = write(size, folder), folder / "model.safetensors"
        given: list[object] = [before[0]]
        if model:
            call("train", path, "--label", "y", "-o", trained)
            given.append(trained)
        given += [path] * data + list(before[1:])
        if before[0] == "train" and "--dry-run" not in before:
            given += ["-o", folder / "new.safetensors"]
        return lambda: call(*given)

    return make


def _files(size: int, folder: Path) -> Callable[[], object]:
    paths = [folder / f"{k}.csv" for k in range(size)]
    for path in paths:
        _write(path, *_examples(10, 4))
    return lambda: call("train", *paths, "--label", "y", "-o", folder / "model.safetensors")


def _methods(size: int, folder: Path) -> Callable[[], object]:
    path = _write(folder / "data.csv", *_examples(60, 4))
    named = [f'm{k}=sklearn.linear_model.RidgeClassifier {{"alpha": {k + 1}}}' for k in range(size)]
    runs = iter(range(1000))

    def work() -> None:
        # another store each time: the results of the last run would be taken from it
        store = folder / f"store{size}-{next(runs)}.sqlite"
        given = [part for name in named for part in ("--estimator", name)]
        call("compare", path, "--label", "y", "--splits", 2, "--quiet", "--store", store,
             "--methods", "logistic", "--report", folder / "report", *given)  # fmt: skip

    return work


def _steps(first: int, n: int, factor: int) -> list[int]:
    return [first * factor**k for k in range(n)]


_ROWS, _COLUMNS = _steps(2_000, 4, 4), _steps(1_500, 4, 4)
_PAIRS = "one score for each pair of classes, at most 50 classes"
_SQUARE = "a matrix of d x d"
_SORT = "scores are sorted, n log n"

CASES: tuple[Case, ...] = (
    Case("AUCClassifier.fit", "rows", _ROWS, _fit("AUCClassifier", by="n")),
    Case("AUCClassifier.fit", "columns", _COLUMNS, _fit("AUCClassifier", by="d")),
    Case("AUCClassifier.fit, sparse", "columns", _COLUMNS,
         _fit("AUCClassifier", by="d", sparse=True)),
    Case("AUCClassifier.fit", "classes", [6, 12, 24, 48],
         _fit("AUCClassifier", by="k", n=480, loss="square"), 2.0, _PAIRS),
    Case("MulticlassAUCClassifier.fit", "rows", _ROWS,
         _fit("MulticlassAUCClassifier", by="n", k=5)),
    Case("OrdinalAUCClassifier.fit", "grades", [25, 50, 100, 200],
         _fit("OrdinalAUCClassifier", by="k", n=1_000)),
    Case("PairwiseRanker.fit", "rows", _ROWS, _fit("PairwiseRanker", by="n")),
    Case("PairwiseRanker.fit", "columns", _COLUMNS, _fit("PairwiseRanker", by="d")),
    Case("MetricLearner.fit", "rows", _ROWS, _fit("MetricLearner", by="n")),
    Case("MetricLearner.fit", "columns", [25, 50, 100], _fit("MetricLearner", by="d", n=200), 3.0,
         f"{_SQUARE} and its eigenvalues"),
    Case("EntropyRegressor.fit", "rows", _ROWS, _fit("EntropyRegressor", by="n")),
    Case("EntropyRegressor.fit", "columns", _COLUMNS, _fit("EntropyRegressor", by="d")),
    Case("AUCClassifier.partial_fit", "rows", _ROWS, _stream("n")),
    Case("AUCClassifier.partial_fit", "columns", _COLUMNS, _stream("d")),
    Case("AUCClassifier.partial_fit, moments", "columns", [100, 200, 400],
         _stream("d", solver="moments"), 3.0, f"{_SQUARE}, solved; max_memory bounds it"),
    Case("AUCClassifier.predict_proba", "rows", _ROWS, _predict("n")),
    Case("AUCClassifier.predict_proba", "columns", _COLUMNS, _predict("d")),
    Case("save", "columns", _COLUMNS, _saved("save")),
    Case("load_model", "columns", _COLUMNS, _saved("load")),
    Case("roc_auc", "rows", _steps(8_000, 4, 4), _metric("roc_auc"), 1.1, _SORT),
    Case("roc_auc_interval", "rows", _steps(8_000, 4, 4), _metric("roc_auc_interval"), 1.1, _SORT),
    Case("compare_auc", "rows", _steps(8_000, 4, 4), _metric("compare_auc"), 1.1, _SORT),
    Case("PartialAUC.interval", "rows", _steps(8_000, 4, 4), _metric("PartialAUC"), 1.1, _SORT),
    Case("HandTill.interval", "classes", [10, 20, 40, 80], _hand_till, 2.0,
         "the AUC of each pair of classes"),
    Case("PairwiseRatings.fit", "votes", _steps(8_000, 4, 4), _ratings("votes", players=100)),
    Case("PairwiseRatings.fit", "players", [50, 100, 200, 400], _ratings("players", votes=50_000),
         3.0, f"{_SQUARE} for d players, solved"),
    Case("Sweep.solve", "models", [49, 98, 196, 392], _models),
    Case("fit_on(OnDask(...))", "partitions", [25, 50, 100, 200], _partitions),
    Case("CSV reader", "rows", _ROWS, _read("csv", "n")),
    Case("CSV reader", "columns", _COLUMNS, _read("csv", "d")),
    Case("svmlight reader", "rows", _ROWS, _read("svm", "n")),
    Case("svmlight reader", "columns", _steps(6_000, 4, 4), _read("svm", "d")),
    Case("Parquet reader", "rows", _ROWS, _read("parquet", "n")),
    Case("Parquet reader", "columns", _COLUMNS[:-1], _read("parquet", "d")),
    Case("pairlearn train", "rows", _ROWS[:-1], _command(_long, "train", "--label", "y")),
    Case("pairlearn train", "columns", _COLUMNS, _command(_wide, "train", "--label", "y")),
    Case("pairlearn train --dry-run", "columns", _COLUMNS,
         _command(_wide, "train", "--label", "y", "--dry-run")),
    Case("pairlearn train --dry-run --json", "columns", _COLUMNS,
         _command(_wide, "train", "--label", "y", "--dry-run", "--json")),
    Case("pairlearn train --fit stream", "columns", _COLUMNS,
         _command(_wide, "train", "--label", "y", "--fit", "stream")),
    Case("pairlearn train", "levels of a category", _ROWS[:-1],
         _command(_category, "train", "--label", "y")),
    Case("pairlearn train --dry-run", "length of a field", _steps(10_000, 4, 4),
         _command(_long_field, "train", "--label", "y", "--dry-run")),
    Case("pairlearn train", "files", [16, 32, 64, 128], _files),
    Case("pairlearn predict", "columns", _COLUMNS, _command(_wide, "predict", model=True)),
    Case("pairlearn evaluate", "columns", _COLUMNS,
         _command(_wide, "evaluate", "--label", "y", model=True)),
    Case("pairlearn inspect", "columns", _COLUMNS,
         _command(_wide, "inspect", model=True, data=False)),
    Case("pairlearn export --to json", "columns", _COLUMNS,
         _command(_wide, "export", "--to", "json", model=True, data=False)),
    Case("pairlearn compare", "methods", [8, 16, 32, 64], _methods),
)  # fmt: skip
