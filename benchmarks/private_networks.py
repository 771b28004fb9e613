# SPDX-License-Identifier: BSD-3-Clause
"""Private networks, pairs beside single examples: ``python -m benchmarks.private_networks``.

`PrivateNeuralAUCClassifier` clips the gradients of pairs, the DP-SGD of Opacus those of single
examples. Both learn from the same rows with the same public bounds and promise the same:
(epsilon, delta) for *one example added or removed*, delta = n^(-3/2). That is the promise that
Opacus makes, with its tightest accountant ("prv") and Poisson sampling, so nothing is converted.
Both networks have one hidden layer of 16 units. Beside them stand two linear scores, by
`PrivateAUCClassifier` with mechanism="noisy_sgd" and with its default.

Each method has one fixed setting. Opacus has also the best of a small grid by *test* AUC, which is
not private: it bounds what private tuning could reach. The data sets are read from ``--data`` (see
`benchmarks.private_rivals`); "digits rare" is a digit against the others, from scikit-learn.
Printed are mean test AUC and its standard error over splits, and the median CPU seconds of a fit.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league_table import Task
from benchmarks.private_auc import rounded_bounds
from benchmarks.private_contestants import Score, Table, batches, descent
from benchmarks.private_rivals import head, read_set, show

#: Data sets and numbers of training rows.
SETS = (("diabetes", 500), ("german.numer", 700), ("digits rare", 1200), ("ijcnn1", 5000))
EPSILONS = (1.0, 2.0, 4.0)
N_HIDDEN = 16
#: Epochs and step size of Opacus; the first is its fixed setting.
GRID = ((15, 3.0), (45, 3.0), (15, 0.3), (45, 1.0))


def ours(table: Table, epsilon: float, delta: float, seed: int) -> Score:
    """Fit `PrivateNeuralAUCClassifier` with its defaults."""
    from pairlearn.torch import MLP, NoisyNetworkSGD, PrivateNeuralAUCClassifier

    model = PrivateNeuralAUCClassifier(
        epsilon, delta, bounds=(table.lower, table.upper), neighbours="add_remove",
        n_examples=len(table.y), mechanism=NoisyNetworkSGD(network=MLP((N_HIDDEN,))),
        random_state=seed,
    ).fit(table.X, table.y)  # fmt: skip
    return lambda X: np.asarray(model.decision_function(X))


def linear(table: Table, epsilon: float, delta: float, seed: int, *, mechanism: str) -> Score:
    """Fit `PrivateAUCClassifier` by a mechanism with its defaults."""
    from pairlearn import PrivateAUCClassifier

    model = PrivateAUCClassifier(
        epsilon, delta, bounds=(table.lower, table.upper), neighbours="add_remove",
        n_examples=len(table.y), mechanism=mechanism, random_state=seed,
    ).fit(table.X, table.y)  # fmt: skip
    return lambda X: np.asarray(model.decision_function(X))


@functools.cache
def added_or_removed(epsilon: float, delta: float, rate: float, n_steps: int) -> float:
    """Return the noise of Opacus in units of the clipping norm, for its own relation."""
    from opacus.accountants.utils import get_noise_multiplier

    return float(
        get_noise_multiplier(
            target_epsilon=epsilon, target_delta=delta, sample_rate=rate, steps=n_steps,
            accountant="prv", epsilon_tolerance=0.01 * epsilon,
        )
    )  # fmt: skip


def pointwise(
    table: Table, epsilon: float, delta: float, seed: int, *, n_epochs: int, step_size: float
) -> Score:
    """Fit a network to single examples by the DP-SGD of Opacus."""
    noise = added_or_removed(epsilon, delta, *batches(len(table.y), n_epochs))
    return descent(table, noise, seed, n_epochs=n_epochs, step_size=step_size, n_hidden=N_HIDDEN)


def methods() -> dict[str, Callable[..., Score]]:
    """Return the methods by name; those of the grid of Opacus are numbered."""
    found: dict[str, Callable[..., Score]] = {
        "ours, network": ours,
        "ours, noisy_sgd": functools.partial(linear, mechanism="noisy_sgd"),
        "ours, default": functools.partial(linear, mechanism="statistics"),
    }
    for number, (n_epochs, step_size) in enumerate(GRID):
        found[f"Opacus {number}"] = functools.partial(
            pointwise, n_epochs=n_epochs, step_size=step_size
        )
    return found


def read(folder: Path | None, name: str) -> Task:
    """Return a data set by its name."""
    if name == "digits rare":
        from sklearn.datasets import load_digits

        X, digit = load_digits(return_X_y=True)
        return Task(name, X, (digit == 8).astype(np.int64))
    if folder is None:
        raise SystemExit(f"{name} needs a folder of data sets; give --data.")
    return read_set(folder, name)


def play(
    task: Task, n: int, epsilon: float, splits: int, names: Sequence[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return test AUC and CPU seconds of each method over splits."""
    from sklearn.model_selection import train_test_split

    from pairlearn.metrics import roc_auc

    auc: dict[str, list[float]] = {name: [] for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for split in range(splits):
        train, test = train_test_split(
            np.arange(len(task.y)), train_size=n, stratify=task.y, random_state=split
        )
        table = Table(task.X[train], task.y[train], *rounded_bounds(task.X))
        for name in names:
            begin = time.process_time()
            score = methods()[name](table, epsilon, n**-1.5, split)
            seconds[name].append(time.process_time() - begin)
            auc[name].append(roc_auc(task.y[test[:10_000]], score(task.X[test[:10_000]])))
    return auc, seconds


def row(task: Task, n: int, epsilon: float, auc: dict[str, list[float]]) -> str:
    """Return a line of Markdown; the best fixed setting is in bold."""
    grid = [name for name in auc if name.startswith("Opacus")]
    fixed = {name: values for name, values in auc.items() if name not in grid[1:]}
    top = max(fixed, key=lambda name: float(np.mean(fixed[name])))
    texts = [f"**{show(v)}**" if name == top else show(v) for name, v in fixed.items()]
    texts += [show(auc[max(grid, key=lambda name: float(np.mean(auc[name])))])] if grid else []
    share = f"{np.mean(task.y):.3f}"
    return f"| {task.name} | {share} | {n:,} | {epsilon:g} | " + " | ".join(texts) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.private_networks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="a folder of data sets")
    parser.add_argument("--sets", nargs="+", choices=[name for name, _ in SETS], metavar="NAME")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    names = list(methods())
    try:
        import opacus  # noqa: F401
    except ImportError:
        print("Opacus is not installed; make bench-private has an environment with it.\n")
        names = [name for name in names if not name.startswith("Opacus")]
    import torch

    torch.set_num_threads(1)
    rivals = ["Opacus network", f"*Opacus, best of {len(GRID)}*"] if len(names) > 3 else []
    print("\n".join(head(["data", "positive", "n", "epsilon", *names[:3], *rivals])))
    taken: dict[tuple[str, int], Any] = {}
    for name, n in SETS:
        if options.sets is not None and name not in options.sets:
            continue
        if options.sets is None and options.data is None and name != "digits rare":
            continue
        task = read(options.data, name)
        for epsilon in options.epsilon:
            auc, seconds = play(task, n, epsilon, options.splits, names)
            print(row(task, n, epsilon, auc), flush=True)
            taken[name, n] = seconds
    print("\n" + "\n".join(head(["CPU seconds of a fit", "n", *names[:4]])))
    for (name, n), seconds in taken.items():
        times = [f"{np.median(seconds[one]):.2g}" for one in names[:4]]
        print(f"| {name} | {n:,} | " + " | ".join(times) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
