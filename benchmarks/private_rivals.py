# SPDX-License-Identifier: BSD-3-Clause
"""Private classifiers side by side: ``python -m benchmarks.private_rivals [--data DIR]``.

Ours, DP-EBM, diffprivlib and Opacus learn from the same rows with the same public bounds and make
the same promise: (epsilon, delta) for one example replaced, with delta = n^(-3/2).
`benchmarks.private_contestants` says how each package's own guarantee is converted, and which
settings it gets. A package that is missing is named in the table as "not installed";
``make bench-private ARGS=...`` installs all of them in an environment of its own.

The data sets are read from the folder ``--data`` and from its folder ``league`` (files
``NAME.libsvm.xz`` and the like); without a folder, sets that ship with scikit-learn take part.
``NAME rare`` is the rarest class of NAME against the others. Public are the bounds of each feature,
for which its smallest and largest value in the whole set stand, rounded outwards to two digits.
Splits are stratified; training sets above 1,000 rows take a third of them (two at least), since
their results vary less. Sets with fewer than n/0.85 rows and n below 4 d are left out.

Printed are the mean test AUC and its standard error over splits for each data set, n and epsilon,
then the CPU seconds of a fit on one thread, then who wins how often.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league import shipped
from benchmarks.league_table import Task, tasks_of
from benchmarks.private_auc import rounded_bounds
from benchmarks.private_contestants import CONTESTANTS, Budget, Contestant, Table

SETS = (
    "diabetes", "german.numer", "magic_scale", "ijcnn1", "mnist",
    "abalone-17_vs_7-8-9-10", "car-good", "letter.scale rare", "a9a",
)  # fmt: skip
SIZES = (256, 1000, 5000, 20_000, 50_000)
EPSILONS = (0.5, 1.0, 2.0)
#: Differences below this, or within Student's 95 % interval over the splits, count as ties.
CLEAR = 0.003
#: Splits of larger training sets are a third.
MANY_ROWS = 1000
MOST_TEST_ROWS = 10_000


@dataclass
class Cell:
    """AUC on one data set with n training rows: [split, epsilon] by method and setting."""

    task: Task
    n: int
    auc: dict[tuple[str, int], list[list[float]]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def fixed(self, name: str) -> Any:
        """Return AUC [split, epsilon] with the fixed setting."""
        return np.array(self.auc[name, 0])

    def best(self, contestant: Contestant) -> Any:
        """Return AUC [split, epsilon] with the best setting for each epsilon, by these very AUC."""
        every = np.array([self.auc[contestant.name, k] for k in range(1 + len(contestant.grid))])
        winner = every.mean(axis=1).argmax(axis=0)
        return every[winner, :, np.arange(every.shape[2])].T


def coarse_images(X: Any) -> Any:
    """Return the means of 7 x 7 blocks of 28 x 28 pixels, a public map; 16 features."""
    full = np.zeros((len(X), 784))
    full[:, : X.shape[1]] = X
    return full.reshape(-1, 4, 7, 4, 7).mean(axis=(2, 4)).reshape(-1, 16)


def read_set(folder: Path, name: str) -> Task:
    """Return the task of this name: two classes, half of many classes, or the rarest one."""
    from pairlearn.data import read_libsvm

    stem, _, kind = name.partition(" ")
    if kind not in ("", "rare"):
        raise SystemExit(f"--sets takes NAME or 'NAME rare', got {name!r}.")
    paths = [
        path
        for place in (folder, folder / "league")
        for mark in ("libsvm", "svm")
        for path in sorted(place.glob(f"{stem}.{mark}*"))
    ]
    if not paths:
        raise SystemExit(
            f"{folder} has no file {stem}.libsvm* or {stem}.svm*, nor has its folder league; "
            "name other sets with --sets, or another folder with --data."
        )
    X, y = read_libsvm(paths[0])
    tasks = list(tasks_of(stem, coarse_images(X) if stem == "mnist" else X, y))
    if not tasks or (kind == "rare" and len(tasks) == 1):
        raise SystemExit(f"{paths[0]} has {len(np.unique(y))} classes; {name!r} needs others.")
    task = tasks[0 if kind else -1]
    return Task(name, np.asarray(task.X, dtype=np.float64), task.y)


def one_split(
    task: Task, n: int, split: int, epsilons: Sequence[float], which: Sequence[Contestant]
) -> tuple[dict[tuple[str, int], list[float]], dict[str, list[float]]]:
    """Return test AUC for each epsilon by method and setting, and CPU seconds by method."""
    from sklearn.model_selection import train_test_split

    from pairlearn.metrics import roc_auc

    train, test = train_test_split(
        np.arange(len(task.y)), train_size=n, stratify=task.y, random_state=split
    )
    test = test[:MOST_TEST_ROWS]
    table = Table(task.X[train], task.y[train], *rounded_bounds(task.X))
    auc: dict[tuple[str, int], list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for contestant in which:
        for number, setting in enumerate((contestant.setting, *contestant.grid)):
            for epsilon in epsilons:
                score, took = contestant.run(table, Budget(epsilon, n**-1.5), split, setting)
                auc.setdefault((contestant.name, number), []).append(
                    roc_auc(task.y[test], score(task.X[test]))
                )
                if number == 0:
                    seconds.setdefault(contestant.name, []).append(took)
    return auc, seconds


#: What a worker has: the data sets by name, and the methods.
_tasks: dict[str, Task] = {}
_methods: list[Contestant] = []


def start_worker(tasks: dict[str, Task], which: Sequence[Contestant]) -> None:
    """Give a process the data and one thread, and let it load and compile what it will time."""
    import numba
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")
    _tasks.update(tasks)
    _methods[:] = which
    if any("torch" in contestant.needs for contestant in which):
        import torch

        torch.set_num_threads(1)
    numba.set_num_threads(1)
    for contestant in which:
        contestant.warm_up()
    threadpool_limits(1)


def work(job: tuple[str, int, int, Sequence[float]]) -> Any:
    """Play one split in a worker."""
    name, n, split, epsilons = job
    return one_split(_tasks[name], n, split, epsilons, _methods)


def n_splits(n: int, splits: int) -> int:
    """Return how many splits a training set of n rows gets."""
    return splits if n <= MANY_ROWS else min(splits, max(2, math.ceil(splits / 3)))


def sizes_of(task: Task, sizes: Sequence[int]) -> list[int]:
    """Return the sizes of training sets that leave rows for a test and are not below 4 d."""
    return [n for n in sizes if 4 * task.X.shape[1] <= n <= 0.85 * len(task.y)]


def play(
    tasks: Sequence[Task],
    sizes: Sequence[int],
    epsilons: Sequence[float],
    splits: int,
    which: Sequence[Contestant],
    n_jobs: int,
) -> Iterator[Cell]:
    """Yield the cells in order, each as soon as all its splits are done."""
    cells = [Cell(task, n) for task in tasks for n in sizes_of(task, sizes)]
    jobs = [
        (cell.task.name, cell.n, split, epsilons)
        for cell in cells
        for split in range(n_splits(cell.n, splits))
    ]
    by_name = {task.name: task for task in tasks}
    with ProcessPoolExecutor(n_jobs, get_context("spawn"), start_worker, (by_name, which)) as pool:
        results = pool.map(work, jobs)
        for cell in cells:
            for _ in range(n_splits(cell.n, splits)):
                auc, seconds = next(results)
                for key, values in auc.items():
                    cell.auc.setdefault(key, []).append(values)
                for name, taken in seconds.items():
                    cell.seconds.setdefault(name, []).extend(taken)
            yield cell


def show(values: Any) -> str:
    """Return the mean and its standard error over splits, without leading zeros."""
    mean = f"{np.mean(values):.3f}".removeprefix("0")
    if len(values) < 2:
        return mean
    return mean + "±" + f"{np.std(values, ddof=1) / np.sqrt(len(values)):.3f}".removeprefix("0")


def columns(which: Sequence[Contestant]) -> list[str]:
    """Return the heads of the columns of AUC."""
    return [c.name for c in which] + [
        f"*{c.name}, best of {1 + len(c.grid)}*" for c in which if c.grid
    ]


def rows_of(
    cell: Cell, epsilons: Sequence[float], which: Sequence[Contestant], problems: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line of Markdown for each epsilon; the best fixed setting in bold."""
    lead = f"| {cell.task.name} | {np.mean(cell.task.y):.3f} | {cell.n:,} |"
    for column, epsilon in enumerate(epsilons):
        fixed = {c.name: cell.fixed(c.name)[:, column] for c in which if c.name not in problems}
        texts = {name: show(values) for name, values in fixed.items()}
        top = max(fixed, key=lambda name: float(np.mean(fixed[name])))
        texts[top] = f"**{texts[top]}**"
        # "not installed" or "does not run"; the reason stands above the table.
        texts |= {name: problem.split(" (")[0] for name, problem in problems.items()}
        best = [
            texts[c.name] if c.name in problems else show(cell.best(c)[:, column])
            for c in which
            if c.grid
        ]
        yield f"{lead} {epsilon:g} | " + " | ".join([*(texts[c.name] for c in which), *best]) + " |"


def head(names: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return ["| " + " | ".join(names) + " |", "| " + " | ".join(["---"] * len(names)) + " |"]


def times(cells: Sequence[Cell]) -> list[str]:
    """Return the table of CPU seconds of a fit: the median over splits and epsilons."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.seconds))
    lines = head(["CPU seconds of a fit", "n", "d", *names])
    for cell in cells:
        taken = [f"{np.median(cell.seconds[name]):.2g}" for name in names]
        shape = f"{cell.task.name} | {cell.n:,} | {cell.task.X.shape[1]}"
        lines.append(f"| {shape} | " + " | ".join(taken) + " |")
    return lines


def margin(gap: Any) -> Any:
    """Return what a mean difference must exceed: `CLEAR`, and Student's 95 % interval."""
    from scipy.stats import t

    k = len(gap)
    if k < 2:
        return np.inf
    return np.maximum(CLEAR, t.ppf(0.975, k - 1) * gap.std(axis=0, ddof=1) / np.sqrt(k))


def outcomes(cells: Sequence[Cell], present: Sequence[Contestant]) -> list[str]:
    """Return mean differences of the first method to the others, wins, ties and losses by n."""
    first = present[0]
    rivals: list[tuple[str, Any]] = [
        (c.name, lambda cell, c=c: cell.fixed(c.name)) for c in present[1:]
    ]
    rivals += [
        (f"{c.name}, best of grid", lambda cell, c=c: cell.best(c)) for c in present if c.grid
    ]
    sizes = sorted({cell.n for cell in cells})
    lines = head([f"{first.name} minus", *(f"n = {n:,}" for n in sizes), "wins : ties : losses"])
    for name, values in rivals:
        counts, row = [0, 0, 0], []
        for n in sizes:
            gaps = []
            for cell in (cell for cell in cells if cell.n == n):
                gap = cell.fixed(first.name) - values(cell)
                mean = gap.mean(axis=0)
                for won in np.where(np.abs(mean) > margin(gap), np.sign(mean), 0.0):
                    counts[1 - int(won)] += 1
                gaps += mean.tolist()
            row.append(f"{np.mean(gaps):+.3f}")
        lines.append(f"| {name} | " + " | ".join(row) + f" | {' : '.join(map(str, counts))} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print the tables, and write them if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.private_rivals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--data", type=Path, help="a folder of data sets")
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help=f"of {', '.join(SETS)}, or others"
    )
    parser.add_argument("--n", type=int, nargs="+", default=SIZES, help="training rows")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--no-grid", action="store_true", help="without the best of a grid")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    options = parser.parse_args(arguments)
    for option in ("n", "epsilon", "splits", "jobs"):
        if not 0 < np.min(getattr(options, option)) < np.inf:
            parser.error(f"--{option} must be positive, got {getattr(options, option)}.")
    which = [
        replace(c, grid=()) if options.no_grid else c
        for c in CONTESTANTS
        if c.name in options.methods
    ]
    problems = {c.name: problem for c in which if (problem := c.problem())}
    present = [c for c in which if c.name not in problems]
    if not present:
        parser.error(f"no method can run: {problems}; make bench-private installs all of them.")
    if options.data is None:
        known = {task.name: task for task in shipped()}
        if unknown := set(options.sets or ()) - set(known):
            parser.error(f"without --data, --sets takes {', '.join(known)}; got {sorted(unknown)}.")
        tasks = [known[name] for name in options.sets or known]
    else:
        tasks = [read_set(options.data, name) for name in options.sets or SETS]
    lines: list[str] = []

    def say(*more: str) -> None:
        lines.extend(more)
        print("\n".join(more), flush=True)
        if options.markdown is not None:
            options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")

    for name, problem in problems.items():
        say(f"{name}: {problem}; make bench-private has an environment with all of them", "")
    for task in tasks:
        if not sizes_of(task, options.n):
            say(f"{task.name}: left out, {task.X.shape} rows and features suit no n", "")
    say(*head(["data", "positive", "n", "epsilon", *columns(which)]))
    cells: list[Cell] = []
    for cell in play(tasks, options.n, options.epsilon, options.splits, present, options.jobs):
        cells.append(cell)
        say(*rows_of(cell, options.epsilon, which, problems))
    if cells:
        say("", *times(cells))
        if len(present) > 1:
            say("", *outcomes(cells, present))
    return 0


if __name__ == "__main__":
    sys.exit(main())
