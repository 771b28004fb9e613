# SPDX-License-Identifier: BSD-3-Clause
"""The paper's table of test AUC on a GPU: all splits, folds and candidates at once.

It uses the same splits, folds, seeds and sample paths as `comparison.cell` on the CPU, so the
models are the same up to rounding (pairs are trained in float32). The scaling of a split is a
factor of each feature on its paths; an offset cancels in differences.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.table1_on_device.auc import auc_of_many
from benchmarks.table1_on_device.draws import draw_indices, draw_keys
from benchmarks.table1_on_device.paths import Path
from benchmarks.table1_on_device.plans import (
    Draw,
    Rule,
    draw_plans,
    portions_of,
    row_of,
    sweep_paths,
)
from benchmarks.table1_on_device.saddle import descend_saddle
from pairlearn.data.dataset import Dataset
from pairlearn.data.splits import Split, folds
from pairlearn.experiments.comparison.cell import Protocol, Result, child_seed, split_of
from pairlearn.experiments.comparison.runner import HONEST, Comparison
from pairlearn.experiments.methods.base import Method, Params
from pairlearn.experiments.methods.pairwise import RecipeMethod, record_steps
from pairlearn.losses import LOSSES
from pairlearn.recipes import STEPS, PairRun, SaddleRun
from pairlearn.solvers.two_classes import n_steps_of

__all__ = ["Seconds", "compare_on_device", "runs_on_device"]

Tensor = Any
Generator = np.random.Generator


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of one method on one data set, all splits together."""

    dataset: str
    method: str
    tuning: float
    training: float


def runs_on_device(method: Method) -> bool:
    """Return whether a method takes one pair a step, or is SPAUC with running class means."""
    if not isinstance(method, RecipeMethod) or method.tuned_once:
        return False
    run = method.published().run
    if isinstance(run, SaddleRun):
        # Steps that do not depend on the number of steps serve paths of all lengths.
        return run.moments == "online" and run.steps in ("inverse_sqrt", "inverse_time")
    return isinstance(run, PairRun) and run.pairing.one_pair_a_step and method.tuning == "sweep"


def compare_on_device(
    datasets: Iterable[Dataset],
    methods: Sequence[Method],
    *,
    device: Any,
    n_splits: int,
    seed: int = 0,
    protocol: Protocol = HONEST,
) -> tuple[Comparison, list[Seconds]]:
    """Tune and train every method on all splits at once; return results and times.

    Parameters
    ----------
    datasets : iterable of Dataset
        Data sets of two classes; sparse ones are made dense. Each is taken when it is needed.
    methods : sequence of Method
        Methods that `runs_on_device` accepts.
    device : torch.device
        Where to train.
    n_splits, seed : int
        As in `comparison.runner.compare`.
    protocol : Protocol, default=HONEST
        Parameters must be chosen inside the training part of each split.

    Returns
    -------
    tuple
        The comparison, and the seconds of each method on each data set.
    """
    if protocol.tuning != "train" or protocol.scaling != "train":
        raise ValueError(
            "a device tunes and scales inside each training part; use the protocol honest, or the "
            "CPU for the paper's."
        )
    results: dict[tuple[str, str], list[Result]] = {}
    times, names = [], []
    for data in datasets:
        names.append(data.name)
        table = _Table(data, n_splits, seed, protocol, device)
        for method in methods:
            if not isinstance(method, RecipeMethod) or not runs_on_device(method):
                raise ValueError(f"{method.name} cannot run on a device; use `compare`.")
            task = _Task(table, method, seed)
            found, seconds = task.run()
            results[data.name, method.name] = found
            times.append(seconds)
    ordered = [
        results[name, method.name][split]
        for name in names
        for split in range(n_splits)
        for method in methods
    ]
    comparison = Comparison(
        results=ordered,
        failures=[],
        datasets=tuple(names),
        methods=tuple(method.name for method in methods),
        n_splits=n_splits,
        seed=seed,
        protocol=protocol,
        n_computed=len(ordered),
    )
    return comparison, times


class _Table:
    """A data set on the device, with its splits and the scales of each."""

    def __init__(
        self, data: Dataset, n_splits: int, seed: int, protocol: Protocol, device: Any
    ) -> None:
        X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
        self.name, self.device = data.name, device
        self.y = np.asarray(data.y, dtype=np.float64)
        self.X = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32)).to(device)
        self.labels = torch.from_numpy(self.y).to(device)
        self.positive = self.labels > 0
        n = len(self.y)
        self.splits: list[Split] = [
            split_of(n, dataset=data.name, split=split, seed=seed, protocol=protocol)
            for split in range(n_splits)
        ]
        self.scales = torch.stack([self._scale(split) for split in self.splits])

    def _scale(self, split: Split) -> Tensor:
        """Return the factors that scale the features of the training part to a range of width 2."""
        part = self.X[torch.from_numpy(split.train).to(self.device)]
        width = (part.amax(0) - part.amin(0)).double()
        return torch.where(width > 0, 2.0 / torch.where(width > 0, width, 1.0), 0.0)

    def rows(self, indices: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(indices).to(self.device)

    def auc(self, coef: Tensor, split: int, indices: NDArray[np.int64]) -> Tensor:
        """Return the AUC of models (n_models, d) on these rows."""
        rows = self.rows(indices)
        # Scores in float64, as on the CPU: the matrix is small.
        weights = coef.double() * self.scales[split]
        scores = weights @ self.X[rows].double().T
        return auc_of_many(scores, self.positive[rows])


class _Task:
    """One method on one data set: tune on all folds of all splits, then train on all splits."""

    def __init__(self, table: _Table, method: RecipeMethod, seed: int) -> None:
        self.table, self.method = table, method
        self.recipe = method.published()
        self.n_passes = method.n_passes or self.recipe.n_passes
        names = ("method", table.name)
        roots = [child_seed(seed, *names, split, method.name) for split in range(len(table.splits))]
        self.generators = [
            tuple(np.random.default_rng(child) for child in root.spawn(2)) for root in roots
        ]
        self._rules: dict[int, Rule] = {}

    def run(self) -> tuple[list[Result], Seconds]:
        """Return the results of all splits, and their time."""
        table, begin = self.table, time.perf_counter()
        params = self._tuned()
        chosen = time.perf_counter()
        coef = self._trained(params)
        aucs = [float(table.auc(coef[k], k, split.test)[0]) for k, split in enumerate(table.splits)]
        end = time.perf_counter()
        seconds = Seconds(table.name, self.method.name, chosen - begin, end - chosen)
        results = [
            Result(
                dataset=table.name,
                split=k,
                method=self.method.name,
                auc=auc,
                cpu_seconds=math.nan,
                tune_cpu_seconds=math.nan,
                n_train=len(split.train),
                n_test=len(split.test),
                params=params[k],
            )
            for k, (auc, split) in enumerate(zip(aucs, table.splits, strict=True))
        ]
        return results, seconds

    def _tuned(self) -> list[Params]:
        """Return the candidate with the highest mean AUC over 5 folds for each split."""
        table, candidates = self.table, self.method.candidates()
        parts, owner = [], []
        jobs: list[tuple[int, NDArray[np.int64], Generator]] = []
        for k, split in enumerate(table.splits):
            rng = self.generators[k][0]
            found = folds(len(split.train), 5, y=table.y[split.train], rng=rng)
            if isinstance(self.recipe.run, SaddleRun):
                # As in `cross_validate`: one generator per fold.
                generators = [np.random.default_rng(s) for s in rng.integers(2**63, size=5)]
            else:
                # As in the sweep of `RecipeMethod`: one generator for all folds.
                generators = [rng] * 5
            for part, generator in zip(found, generators, strict=True):
                jobs.append((k, split.train[part.train], generator))
                parts.append(split.train[part.test])
                owner.append(k)
        coef = self._train(jobs, [candidates] * len(jobs))
        totals = torch.zeros(
            (len(table.splits), len(candidates)), dtype=torch.float64, device=table.device
        )
        for k, held, models in zip(owner, parts, coef, strict=True):
            totals[k] += table.auc(models, k, held)
        return [candidates[k] for k in totals.cpu().numpy().argmax(axis=1)]

    def _trained(self, params: list[Params]) -> Tensor:
        """Return the models (n_splits, 1, d) trained on the whole training parts."""
        jobs = [
            (k, split.train, self.generators[k][1]) for k, split in enumerate(self.table.splits)
        ]
        # The CPU records intermediate models, and so draws the path in other portions.
        return self._train(jobs, [[one] for one in params], recorded=self.method.records)

    def _train(
        self,
        jobs: Sequence[tuple[int, NDArray[np.int64], Generator]],
        candidates: Sequence[Sequence[Params]],
        *,
        recorded: bool = False,
    ) -> Tensor:
        """Return the averages (n_jobs, n_models, d) of pairwise SGD, all trained at once."""
        if isinstance(self.recipe.run, SaddleRun):
            return self._train_saddle(jobs, candidates)
        table, run, device = self.table, self.recipe.run, self.table.device
        assert isinstance(run, PairRun)
        draws = []
        for _, rows, rng in jobs:
            n_steps = n_steps_of(self.n_passes, len(rows))
            portions = portions_of(n_steps, record_steps(n_steps) if recorded else ())
            draws.append(Draw(len(rows), portions, rng, table.y[rows]))
        plans = draw_plans(run.pairing, draws, device)
        paths, sizes, radii = [], [], []
        known: dict[int, Tensor] = {}
        for (_, rows, _), models, (left, right) in zip(jobs, candidates, plans, strict=True):
            n_steps = len(left)
            rule = self._rule(n_steps)
            here = table.rows(rows)
            if rule.factors is not None and n_steps not in known:
                known[n_steps] = torch.from_numpy(rule.factors).to(device)
            paths.append(Path(here[left], here[right], rule.shares, known.get(n_steps)))
            sizes.append(row_of([model["step_size"] for model in models], rule, device))
            free = math.inf
            radii.append([model.get("radius", free) if run.projects else free for model in models])
        averages, _, _ = sweep_paths(
            table.X,
            table.labels,
            paths,
            LOSSES.make(self.recipe.loss if self.method.loss is None else self.method.loss),
            step_sizes=torch.stack(sizes),
            radii=torch.tensor(radii, dtype=torch.float32).to(device),
            scales=table.scales[[k for k, _, _ in jobs]].float(),
        )
        return averages

    def _train_saddle(
        self,
        jobs: Sequence[tuple[int, NDArray[np.int64], Generator]],
        candidates: Sequence[Sequence[Params]],
    ) -> Tensor:
        """Return the averages (n_jobs, n_models, d) of SPAUC, all trained at once."""
        table, device = self.table, self.table.device
        numbers = [len(rows) for _, rows, _ in jobs]
        counts = [n_steps_of(self.n_passes, n) for n in numbers]
        keys = np.concatenate([draw_keys(rng, 1) for _, _, rng in jobs])
        drawn = torch.split(draw_indices(keys, counts, numbers, device), counts)
        paths = [table.rows(rows)[path] for (_, rows, _), path in zip(jobs, drawn, strict=True)]
        shares = [self._rule(n_steps).shares for n_steps in counts]
        shape = self._rule(max(len(path) for path in paths)).factors
        assert shape is not None
        sizes = [[model["step_size"] for model in models] for models in candidates]
        return descend_saddle(
            table.X,
            table.positive,
            paths,
            step_sizes=torch.tensor(sizes, dtype=torch.float64).to(device),
            shape=shape,
            shares=shares,
            scales=table.scales[[k for k, _, _ in jobs]].contiguous(),
        )

    def _rule(self, n_steps: int) -> Rule:
        """Return step sizes and averaging weights of `n_steps` steps, cached by their number."""
        if n_steps not in self._rules:
            run = self.recipe.run
            assert isinstance(run, PairRun | SaddleRun)
            schedule = STEPS[run.steps](1.0, n_steps)
            if isinstance(run, PairRun):
                schedule = schedule.scaled(run.factor)
            self._rules[n_steps] = Rule.of(schedule, run.averaging, n_steps)
        return self._rules[n_steps]
