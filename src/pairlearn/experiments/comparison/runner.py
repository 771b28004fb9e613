# SPDX-License-Identifier: BSD-3-Clause
"""Run a comparison: data sets x splits x methods, in parallel, resumable, deterministic.

Cells are ordered by data set, then split, then method, so that methods are timed side by side and a
slow minute affects all of them. Only the parent process writes results, each as soon as it arrives.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from pairlearn import __version__
from pairlearn.data import Dataset
from pairlearn.experiments.comparison.cell import Protocol, Result, Task, Tuning, run_task
from pairlearn.experiments.comparison.statistics import Interval, resampled_mean
from pairlearn.experiments.comparison.store import Store, StoreError, make_key
from pairlearn.experiments.methods.base import Method
from pairlearn.shown import Shown, Table, number
from pairlearn.validation import check_count

#: Scaled and tuned inside each training part, on independent random splits.
HONEST = Protocol()
#: As the paper's published code does: scaled and tuned on all examples, repeated 5-fold splits.
PAPER = Protocol(scaling="paper", splits="folds", tuning="all")

_PACKAGES = ("pairlearn", "numpy", "scipy", "scikit-learn", "numba", "matplotlib")


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
    """

    results: list[Result]
    failures: list[Failure]
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    n_splits: int
    seed: int
    protocol: Protocol
    n_computed: int

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
            sizes = {"n_train": found[0].n_train, "n_test": found[0].n_test}
            auc = resampled_mean([one.auc for one in found], **sizes, confidence=confidence)
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
        The file of results, JSON lines. Cells that it holds are not computed again.
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
    ...                    store=f"{folder}/results.jsonl", n_splits=1)
    >>> done.results[0].auc > 0.95
    True
    """
    check_count("n_splits", n_splits)
    check_count("workers", workers)
    check_count("seed", seed, minimum=0)
    _check_kinds(datasets, methods, protocol)
    _check_names("data sets", [data.name for data in datasets])
    _check_names("methods", [method.name for method in methods])
    cells = {
        _key(task): task
        for task in (
            Task(data, method, protocol, seed, split)
            for data in datasets
            for split in range(n_splits)
            for method in methods
        )
    }
    with Store(store) as results:
        facts = {
            "command": command,
            "datasets": [data.name for data in datasets],
            "methods": [method.settings() for method in methods],
            "protocol": asdict(protocol),
            "settings": {"n_splits": n_splits, "seed": seed, "workers": workers},
            "environment": environment(),
        }
        results.put("run", make_key(facts), facts)
        known = {key: found for key in cells if (found := _stored(results, key)) is not None}
        missing = [task for key, task in cells.items() if key not in known]
        ready, errors = _with_shared_params(missing, results, workers)
        n_old, n_done = len(known), len(known) + len(errors)
        if progress is not None:
            progress(n_done, len(cells), "")
        for task, outcome in _outcomes(ready, workers):
            if isinstance(outcome, Result):
                results.put("result", _key(task), asdict(outcome))
                known[_key(task)] = outcome
            else:
                errors[_key(task)] = str(outcome)
            n_done += 1
            if progress is not None:
                progress(n_done, len(cells), task.label)
        failures = []
        for key, task in cells.items():
            if key in errors:
                failures.append(Failure(task.data.name, task.split, task.method.name, errors[key]))
                results.put("failure", key, asdict(failures[-1]))
    return Comparison(
        results=[known[key] for key in cells if key in known],
        failures=failures,
        datasets=tuple(data.name for data in datasets),
        methods=tuple(method.name for method in methods),
        n_splits=n_splits,
        seed=seed,
        protocol=protocol,
        n_computed=len(known) - n_old,
    )


def _check_kinds(datasets: Any, methods: Any, protocol: Any) -> None:
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


def _check_names(what: str, names: Sequence[str]) -> None:
    if not names:
        raise ValueError(f"a comparison needs {what}; name at least one.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} need distinct names, but {', '.join(twice)} comes twice.")


def _key(task: Task) -> str:
    return make_key({**task.identity(), "version": __version__})


def _stored(results: Store, key: str) -> Result | None:
    entry = results.get("result", key)
    try:
        return None if entry is None else Result(**entry)
    except TypeError as error:
        raise StoreError(
            f"{results.path} holds no result of this version ({error}); name another file."
        ) from None


def _with_shared_params(
    missing: Sequence[Task], results: Store, workers: int
) -> tuple[list[Task], dict[str, str]]:
    """Choose the parameters that splits share once, and pass them to every cell.

    Returns the cells that can be computed, and for others why not.
    """
    once = {
        _key(task): replace(task, split=-1)
        for task in missing
        if task.method.tuned_once or task.protocol.tuning == "all"
    }
    shared = {_key(task): task for task in once.values()}
    chosen = {key: entry["params"] for key in shared if (entry := results.get("tuning", key))}
    failed = {}
    absent = [task for key, task in shared.items() if key not in chosen]
    for task, outcome in _outcomes(absent, workers):
        if isinstance(outcome, Tuning):
            results.put("tuning", _key(task), asdict(outcome))
            chosen[_key(task)] = outcome.params
        else:
            failed[_key(task)] = f"while tuning: {outcome}"
    ready, errors = [], {}
    for task in missing:
        key = _key(once[_key(task)]) if _key(task) in once else ""
        if key in failed:
            errors[_key(task)] = failed[key]
        else:
            ready.append(replace(task, params=chosen[key]) if key else task)
    return ready, errors


def _outcomes(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Result | Tuning | str]]:
    if workers == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, run_task(task)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    # joblib writes large arrays to files once, and its processes map them.
    pool = Parallel(n_jobs=min(workers, len(tasks)), return_as="generator_unordered", batch_size=1)
    try:
        for k, outcome in pool(delayed(_numbered)(k, task) for k, task in enumerate(tasks)):
            yield tasks[k], outcome
    except BrokenProcessPool as error:
        raise ComparisonError(
            "a worker process died, perhaps for lack of memory; use fewer workers. Finished cells "
            "are stored, and the same command continues from there."
        ) from error


def _numbered(k: int, task: Task) -> tuple[int, Result | Tuning | str]:
    return k, run_task(task)


def environment() -> dict[str, str]:
    """Return what a reader must know to judge and repeat timings. No user or host names."""
    processor = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        processor = next(names, processor)
    except OSError:
        pass
    found = {
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor or "unknown",
        "cores": str(os.cpu_count() or "unknown"),
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = __version__ if name == "pairlearn" else "not installed"
    return found
