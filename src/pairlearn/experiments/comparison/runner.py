# SPDX-License-Identifier: BSD-3-Clause
"""Run a comparison: data sets x splits x methods, in parallel, resumable, deterministic.

Cells are ordered by data set, then split, then method, so that methods are timed side by side and a
slow minute affects all of them. Only the parent process writes results, each as soon as it arrives.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from pairlearn import __version__
from pairlearn.data.dataset import Dataset
from pairlearn.experiments.comparison.cell import (
    ArrayFiles,
    Protocol,
    Task,
    Tuning,
    run_task,
    start_worker,
)
from pairlearn.experiments.comparison.statistics import Interval, resampled_mean
from pairlearn.experiments.comparison.store import Result, Store, make_key
from pairlearn.experiments.methods.base import Method
from pairlearn.shown import Shown, Table, number
from pairlearn.validation import check_count

#: Scaled and tuned inside each training part, on independent random splits.
HONEST = Protocol()
#: As the paper's published code does: scaled and tuned on all examples, repeated 5-fold splits.
PAPER = Protocol(scaling="paper", splits="folds", tuning="all")

_PACKAGES = ("pairlearn", "numpy", "scipy", "scikit-learn", "numba", "matplotlib")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ComparisonError(Exception):
    """A comparison could not continue; finished cells are stored."""


@dataclass(frozen=True)
class Failure:
    """A cell that raised an error."""

    dataset: str
    split: int
    method: str
    message: str

    @property
    def line(self) -> str:
        """The failure in one line for a terminal."""
        return f"failed: {self.dataset} split {self.split} {self.method}: {self.message}"


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """The results of a comparison.

    Attributes
    ----------
    results : list of Result
        In the requested order of data sets, splits and methods.
    failures : list of Failure
        Cells without a result; another run tries them again.
    datasets, methods : tuple of str
        Names in the requested order.
    n_splits, seed : int
        As requested.
    protocol : Protocol
        As requested.
    n_computed : int
        Cells that this run computed; the others were in the store.
    feature_names : dict of str to tuple of str
        Names of the features of a data set, if it has names.
    """

    results: list[Result]
    failures: list[Failure]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    n_splits: int
    seed: int
    protocol: Protocol
    n_computed: int
    feature_names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def shown_table(self) -> Table:
        """Return the mean test AUC of each method on each data set, with its interval."""
        head = ("data set", "method", "AUC", "low", "high")
        return head, [
            [dataset, method, number(auc.mean), number(auc.low), number(auc.high)]
            for dataset, method, auc in self.aucs()
        ]

    def aucs(self, confidence: float = 0.95) -> Iterator[tuple[str, str, Interval]]:
        """Yield data set, method and mean test AUC with its corrected interval."""
        for dataset, method, found in self.by_method():
            one = found[0]
            auc = resampled_mean(
                [result.auc for result in found],
                n_train=one.n_train,
                n_test=one.n_test,
                confidence=confidence,
            )
            # A t interval may leave [0, 1], which an AUC cannot.
            low, high = (min(max(end, 0.0), 1.0) for end in (auc.low, auc.high))
            yield dataset, method, replace(auc, low=low, high=high)

    def values(self, dataset: str, method: str) -> dict[int, Result]:
        """Return the results of one method on one data set by split."""
        return {
            result.split: result
            for result in self.results
            if result.dataset == dataset and result.method == method
        }

    def by_method(self) -> Iterator[tuple[str, str, list[Result]]]:
        """Yield data set, method and results, where there are any."""
        for dataset in self.datasets:
            for method in self.methods:
                found = list(self.values(dataset, method).values())
                if found:
                    yield dataset, method, found


def compare(
    datasets: Sequence[Dataset],
    methods: Sequence[Method],
    *,
    store: str | Path,
    n_splits: int = 25,
    seed: int = 0,
    protocol: Protocol = HONEST,
    workers: int = 1,
    command: str = "",
    progress: Callable[[int, int, str], None] | None = None,
) -> Comparison:
    """Run a comparison, or continue one.

    Parameters
    ----------
    datasets : sequence of Dataset
        The data sets.
    methods : sequence of Method
        The methods; the others are compared with the first.
    store : str or Path
        The SQLite file of results. Cells that it holds are not computed again.
    n_splits : int, default=25
        Splits of each data set.
    seed : int, default=0
        Determines all splits and all random numbers.
    protocol : Protocol, default=HONEST
        How examples are split, scaled and used for tuning.
    workers : int, default=1
        Number of processes. It may change the times, never the numbers.
    command : str
        The command line, for the record.
    progress : callable, optional
        Called with the number of finished cells, the total, and the cell just finished.

    Returns
    -------
    Comparison
        All requested results, new and old.

    Examples
    --------
    >>> import tempfile
    >>> from pairlearn.data import load
    >>> from pairlearn.experiments import find_method
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = compare([load("breast_cancer")], [find_method("logistic")],
    ...                    store=f"{folder}/results.sqlite", n_splits=1)
    >>> done.results[0].auc > 0.95
    True
    """
    check_count("n_splits", n_splits)
    check_count("workers", workers)
    check_count("seed", seed, minimum=0)
    for given, kind, cure in (
        (datasets, Dataset, "pairlearn.data.load(name)"),
        (methods, Method, "find_method(name)"),
        ([protocol], Protocol, "HONEST or PAPER"),
    ):
        many = isinstance(given, Sequence) and not isinstance(given, str)
        wrong = [one for one in given if not isinstance(one, kind)] if many else [given]
        if wrong:
            raise TypeError(
                f"compare takes each {kind.__name__} as an object, got {wrong[0]!r}; pass {cure}"
                + ("." if kind is Protocol else ", in a list.")
            )
    _check_names("data sets", [data.name for data in datasets])
    _check_names("methods", [method.name for method in methods])
    with Store(store) as results:
        folder = Path(f"{results.path}.arrays")
        files = {data.name: ArrayFiles(data.name, data.sha256, str(folder)) for data in datasets}
        results.put_run(
            command=command,
            settings={
                "datasets": [data.name for data in datasets],
                "methods": [method.settings() for method in methods],
                "n_splits": n_splits,
                "seed": seed,
                "protocol": asdict(protocol),
                "workers": workers,
            },
            environment=environment(),
        )
        run = _Run(results, workers, progress)
        cells = [
            Task(files[data.name], method, protocol, seed, split)
            for data in datasets
            for split in range(n_splits)
            for method in methods
        ]
        try:
            for data in datasets:
                files[data.name].write(data.X, data.y)
            finished, failures = run.cells(cells)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return Comparison(
        results=finished,
        failures=failures,
        datasets=tuple(data.name for data in datasets),
        methods=tuple(method.name for method in methods),
        n_splits=n_splits,
        seed=seed,
        protocol=protocol,
        n_computed=run.n_computed,
        feature_names={data.name: data.feature_names for data in datasets if data.feature_names},
    )


def _check_names(what: str, names: Sequence[str]) -> None:
    if not names:
        raise ValueError(f"a comparison needs {what}; name at least one.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} need distinct names, but {', '.join(twice)} comes twice.")


def _key(task: Task) -> str:
    return make_key({**task.identity(), "version": __version__})


@dataclass
class _Run:
    """One run of a comparison: finds the missing cells and computes them."""

    store: Store
    workers: int
    progress: Callable[[int, int, str], None] | None
    total: int = 0
    done: int = 0
    n_computed: int = 0

    def cells(self, cells: list[Task]) -> tuple[list[Result], list[Failure]]:
        """Return the results of all cells, and the failures."""
        self.total = len(cells)
        keys = [_key(task) for task in cells]
        have = self.store.get(keys)
        missing = [task for task, key in zip(cells, keys, strict=True) if key not in have]
        self.done = len(cells) - len(missing)
        self._tell("")
        errors: dict[str, str] = {}
        with self._executor(len(missing)) as submit:
            missing, errors = self._with_shared_params(missing, submit)
            for task, outcome in self._outcomes(missing, submit):
                key = _key(task)
                if isinstance(outcome, Result):
                    self.store.put(key, outcome)
                    have[key] = outcome
                    self.n_computed += 1
                else:
                    errors[key] = str(outcome)
                self.done += 1
                self._tell(f"{task.data.name} split {task.split} {task.method.name}")
        failures = []
        for task, key in zip(cells, keys, strict=True):
            if key in errors:
                where = {"dataset": task.data.name, "split": task.split, "method": task.method.name}
                failure = Failure(**where, message=errors[key])  # type: ignore[arg-type]
                failures.append(failure)
                self.store.put_failure(key, **asdict(failure))
        return [have[key] for key in keys if key in have], failures

    def _with_shared_params(
        self, missing: list[Task], submit: Callable[[Task], Future[Any]]
    ) -> tuple[list[Task], dict[str, str]]:
        """Choose the parameters that splits share once, and pass them to every cell."""
        shared: dict[str, Task] = {}
        of_cell: dict[int, str] = {}
        for index, task in enumerate(missing):
            if task.method.tuned_once or task.protocol.tuning == "all":
                tuning = replace(task, split=-1)
                of_cell[index] = _key(tuning)
                shared[of_cell[index]] = tuning
        params = self.store.get_tunings(shared)
        failed: dict[str, str] = {}
        absent = [task for key, task in shared.items() if key not in params]
        for task, outcome in self._outcomes(absent, submit):
            key = _key(task)
            if isinstance(outcome, Tuning):
                self.store.put_tuning(key, **asdict(outcome))
                params[key] = outcome.params
            else:
                failed[key] = f"while tuning: {outcome}"
        ready, errors = [], {}
        for index, task in enumerate(missing):
            tuning_key = of_cell.get(index)
            if tuning_key is None:
                ready.append(task)
            elif tuning_key in params:
                ready.append(replace(task, params=params[tuning_key]))
            else:
                errors[_key(task)] = failed[tuning_key]
                self.done += 1
        return ready, errors

    def _tell(self, label: str) -> None:
        if self.progress is not None:
            self.progress(self.done, self.total, label)

    @contextlib.contextmanager
    def _executor(self, n_tasks: int) -> Iterator[Callable[[Task], Future[Any]]]:
        """Yield a function that submits a task: in this process, or to a pool of workers."""
        if self.workers == 1 or n_tasks == 0:
            yield _run_here
            return
        # Workers must see one thread per process before they import numerical libraries.
        before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
        os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
        others = set(active_children())
        pool = ProcessPoolExecutor(
            min(self.workers, n_tasks), mp_context=get_context("spawn"), initializer=start_worker
        )
        try:
            yield lambda task: pool.submit(run_task, task)
        except BaseException:
            # Running cells may take minutes; they are not stored yet and will run again.
            for process in set(active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def _outcomes(
        self, tasks: list[Task], submit: Callable[[Task], Future[Any]]
    ) -> Iterator[tuple[Task, Result | Tuning | str]]:
        """Yield each task with its outcome, or with the error as text, as they finish."""
        todo = iter(tasks)
        pending: dict[Future[Any], Task] = {}
        while True:
            # A short queue keeps workers busy and lets Ctrl-C take effect at once.
            while len(pending) < (1 if self.workers == 1 else 2 * self.workers):
                task = next(todo, None)
                if task is None:
                    break
                pending[submit(task)] = task
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                task = pending.pop(future)
                try:
                    yield task, future.result()
                except BrokenProcessPool as error:
                    raise ComparisonError(
                        "a worker process died, perhaps for lack of memory; use fewer workers. "
                        "Finished cells are stored, and the same command continues from there."
                    ) from error
                except Exception as error:
                    yield task, f"{type(error).__name__}: {' '.join(str(error).split())}"


def _run_here(task: Task) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(run_task(task))
    except Exception as error:
        future.set_exception(error)
    return future


def environment() -> dict[str, str]:
    """Return what a reader must know to judge and repeat timings. No user or host names."""
    found = {
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(os.cpu_count() or "unknown"),
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = __version__ if name == "pairlearn" else "not installed"
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
