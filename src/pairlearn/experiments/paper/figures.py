# SPDX-License-Identifier: BSD-3-Clause
"""The paper's figures: AUC against CPU time, the cost of sampling, the log-link loss.

The paper's source has no numbers for them, so they are drawn as in the paper and summarised by
numbers of our own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pairlearn.data import PAPER_SETS, Dataset
from pairlearn.data.splits import prepare
from pairlearn.experiments.comparison.cell import child_seed, split_of
from pairlearn.experiments.comparison.runner import Comparison
from pairlearn.experiments.comparison.tables import trajectories
from pairlearn.experiments.methods.base import Method
from pairlearn.experiments.methods.pairwise import RecipeMethod
from pairlearn.experiments.paper.outcome import Outcome, Settings, Shelf
from pairlearn.experiments.report.comparison import comparison_parts
from pairlearn.experiments.report.figures import Curve, curves_figure
from pairlearn.experiments.report.page import Cell, Figure, Table
from pairlearn.metrics.risk import pair_risk
from pairlearn.typing import Places

#: The paper's common setting for timing: one ball for all, constant steps, tuned step sizes.
_RADIUS = 100.0
_NEAR = 0.005
_SAME = (
    f"All methods: a ball of radius {_RADIUS:g}, constant steps eta / sqrt(T), eta by 5-fold "
    "cross-validation. CPU time of training on one thread, without compilation, tuning and "
    "evaluation; methods take turns on each split. SPAUC has no ball. Buffer methods are tuned "
    "once, on at most 5,000 examples. The source of the paper does not say which data set is in "
    "which panel."
)
_NO_DATA = "no data set is available, so nothing was run."


# -------------------------------------------------------------------------- AUC against CPU time


def timed_methods(loss: str) -> list[Method]:
    """Return the methods of the timing figures for a loss."""
    ball: dict[str, Any] = {"radii": (_RADIUS,), "steps": "constant"}
    swept = {**ball, "loss": loss, "n_passes": 20, "tuning": "sweep"}
    buffered = {**ball, "loss": loss, "n_passes": 5, "tuning": "once"}
    methods: list[Method] = [
        RecipeMethod(name="ours", recipe="previous_example", **swept),
        RecipeMethod(name="sgd-pair", recipe="sgd_pair", **swept),
        RecipeMethod(name="olp", recipe="olp", **buffered),
    ]
    if loss == "hinge":
        methods.append(RecipeMethod(name="oam", recipe="oam_gra", projects=True, **buffered))
    else:
        spauc = RecipeMethod(
            name="spauc", recipe="spauc", steps="constant", averaging="uniform", n_passes=20
        )
        methods.append(spauc)
    return methods


def time_figure(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce fig-hinge (three data sets), fig-hinge-more (the other three) or fig-square."""
    loss = "square" if name == "fig-square" else "hinge"
    sets = {"fig-hinge": PAPER_SETS[:3], "fig-hinge-more": PAPER_SETS[3:]}.get(name, PAPER_SETS)
    title = f"Test AUC against CPU time (log axis), {loss} loss"
    datasets = shelf.take(sets)
    if not datasets:
        return Outcome(name, title, nothing=_NO_DATA)
    comparison = settings.run(datasets, settings.chosen(timed_methods(loss)), n_splits=5)
    paths = trajectories(comparison)
    rows: list[list[str | float | Cell]] = []
    for path in paths:
        best = max(float(other.auc_mean[-1]) for other in paths if other.dataset == path.dataset)
        near = np.flatnonzero(path.auc_mean >= best - _NEAR)
        reached: float | str = float(path.cpu_seconds[near[0]]) if len(near) else "not reached"
        ends = float(path.auc_mean[-1]), float(path.cpu_seconds[-1])
        rows.append([path.dataset, path.method, *ends, reached])
    columns = {"data set": "", "method": "", "AUC at the end": ".4f", "CPU s": ".3g",
               f"CPU s to within {_NEAR:g} of best": ".3g"}  # fmt: skip
    note = f"Means over {comparison.n_splits} splits."
    table = Table("AUC and time", "times", columns, rows, note)
    return _outcome(name, title, _SAME, table, comparison)


def _outcome(
    name: str, title: str, remark: str, table: Table, comparison: Comparison, *more: Figure
) -> Outcome:
    """Return an outcome with those parts of a comparison that a figure's page shows."""
    wanted = ("figure-curves", "results", "failures", "warnings")
    parts = comparison_parts(comparison) if comparison.results else []
    kept = [part for part in parts if part.name in wanted]
    failures = [failure.line for failure in comparison.failures]
    return Outcome(name, title, [remark], [table], [*more, *kept], failures)


# ---------------------------------------------------------------------------- the cost of drawing


def draw_pairs(n: int, count: int, *, rng: np.random.Generator) -> tuple[Places, Places]:
    """Return `count` ordered pairs of distinct indices below n, uniform, in O(count).

    The second index is drawn from n - 1 values and moved up by one where it is not below the first.
    """
    left = rng.integers(n, size=count)
    right = rng.integers(n - 1, size=count)
    right += right >= left
    return left, right


def _choices(rng: np.random.Generator | np.random.RandomState, n: int, count: int) -> None:
    for _ in range(count):
        rng.choice(n, 2, replace=False)


#: Ways to draw, by name: a function of n, the number of draws and the seed, and that number.
_SCHEMES: dict[str, tuple[Callable[[int, int, int], Any], Callable[[int], int]]] = {
    "one example": (
        lambda n, count, seed: np.random.default_rng(seed).integers(n, size=count),
        lambda n: 200_000,
    ),
    "pair, two draws with a shift": (
        lambda n, count, seed: draw_pairs(n, count, rng=np.random.default_rng(seed)),
        lambda n: 200_000,
    ),
    "pair, Generator.choice": (
        lambda n, count, seed: _choices(np.random.default_rng(seed), n, count),
        lambda n: 500,
    ),
    # The legacy interface is what the paper measures.
    "pair, legacy choice": (
        lambda n, count, seed: _choices(np.random.RandomState(seed), n, count),
        lambda n: max(3, min(500, 2_000_000 // n)),
    ),
}


def sampling_seconds(sizes: Sequence[int], *, repeats: int, seed: int) -> dict[str, list[float]]:
    """Return the CPU seconds of one draw by scheme, at each size.

    Schemes take turns, and the fastest repetition counts, which interruptions affect least.
    """
    best: dict[str, list[float]] = {scheme: [np.inf] * len(sizes) for scheme in _SCHEMES}
    for repeat in range(repeats):
        for place, n in enumerate(sizes):
            for scheme, (draw, how_many) in _SCHEMES.items():
                count, start = how_many(n), time.process_time()
                draw(n, count, seed + repeat)
                seconds = (time.process_time() - start) / count
                best[scheme][place] = min(seconds, best[scheme][place])
    return best


def sampling_figure(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce fig-sampling: the cost of drawing an example and of drawing a pair."""
    title = "CPU time of one draw against the number of examples"
    sizes = [1_000, 10_000, 100_000, *([] if settings.quick else [1_000_000])]
    best = sampling_seconds(sizes, repeats=2 if settings.quick else 5, seed=settings.seed)
    claim = (
        "The paper finds that drawing a random pair becomes slower than drawing one example as n "
        "grows. Here this holds only for the legacy choice(n, 2, replace=False), which permutes "
        "all n indices for each pair. Two draws with a shift are just as uniform over distinct "
        "pairs, and their time does not depend on n, so the claim rests on how the pair is drawn."
    )
    rows = [[one, n, s] for one, found in best.items() for n, s in zip(sizes, found, strict=True)]
    columns = {"scheme": "", "n": "d", "CPU s": ".3g"}
    table = Table("CPU seconds of one draw", "seconds", columns, rows)
    curves = {("one draw", scheme): Curve(sizes, seconds) for scheme, seconds in best.items()}
    figure = Figure(
        title,
        "curves",
        curves_figure(curves, xlabel="examples n (log)", ylabel="CPU seconds (log)", log_y=True),
        table.csv,
        "CPU seconds of one draw against n; only the legacy choice grows with n.",
    )
    return Outcome(name, title, [claim], [table], [figure])


# ------------------------------------------------------------------------------ the log-link loss


def _loglink() -> list[RecipeMethod]:
    return [
        RecipeMethod(
            name=name,
            recipe="previous_example",
            loss="loglink",
            steps=steps,
            averaging="uniform",
            projects=False,
            tuning="sweep",
        )
        for name, steps in (("published-steps", "inverse_time"), ("delayed-steps", "delayed"))
    ]


def loglink_figure(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce fig-loglink: Algorithm 1 on the square loss after a logistic link."""
    title = "Convergence of Algorithm 1 on the log-link loss (1 - 1/(1 + exp(-t)))^2"
    methods, datasets = _loglink(), shelf.take(PAPER_SETS)
    if not datasets:
        return Outcome(name, title, nothing=_NO_DATA)
    comparison = settings.run(datasets, methods, n_splits=5)
    remark = (
        "No ball, eta by 5-fold cross-validation, the plain mean of the iterates, 10 passes. "
        "published-steps are eta / t, as in the published code, delayed-steps eta / (t + T/10), "
        "since the theorem for this loss needs steps that are small from the start, and large "
        "first steps lead to where the loss, which is not convex, is flat. The risk is that of the "
        "averages on at most 1,000 training examples of each class of the first split; at w = 0 it "
        "is 0.25 for each pair of opposite classes."
    )
    risks = {
        (data.name, method.name): _risk_curve(method, data, settings)
        for data in datasets
        for method in methods
    }
    figure = Figure(
        "Pair risk during training",
        "risk",
        curves_figure(
            {key: Curve(*zip(*points, strict=True)) for key, points in risks.items()},
            xlabel="gradients (log)",
            ylabel="pair risk",
        ),
        (
            ["dataset", "method", "n_gradients", "risk"],
            [[*key, *point] for key, points in risks.items() for point in points],
        ),
        "Pair risk of the log-link loss against the number of gradients for each data set.",
    )
    rows = []
    for path in trajectories(comparison):
        (_, first), *_, (_, last) = risks[path.dataset, path.method]
        ends = float(path.auc_mean[-1]), float(path.cpu_seconds[-1])
        rows.append([path.dataset, path.method, *ends, first, last])
    columns = {"data set": "", "steps": "", "AUC at the end": ".4f", "CPU s": ".3g",
               "risk after 16 steps": ".4f", "at the end": ".4f"}  # fmt: skip
    table = Table("AUC and risk", "ends", columns, rows)
    return _outcome(name, title, remark, table, comparison, figure)


def _risk_curve(
    method: RecipeMethod, data: Dataset, settings: Settings
) -> list[tuple[float, float]]:
    """Return (gradients, pair risk for each opposite pair) along one training."""
    split = split_of(
        data.n, dataset=data.name, split=0, seed=settings.seed, protocol=settings.rules
    )
    X, _ = prepare(data.X, split.train, split.test[:1], scaling=settings.rules.scaling)
    y = data.y[split.train]
    rng = np.random.default_rng(child_seed(settings.seed, "risk", data.name))
    fitted = method.fit(X, y, method.tune(X, y, rng), rng)
    rows = np.concatenate([np.flatnonzero(y == sign)[:1_000] for sign in (-1.0, 1.0)])
    signs = y[rows]
    share = 2.0 * np.mean(signs > 0) * np.mean(signs < 0) * len(rows) / (len(rows) - 1)
    return [
        (
            float(max(point.n_gradients, 1)),
            pair_risk("loglink", point.model.decision_function(X[rows]), signs) / float(share),
        )
        for point in fitted.waypoints
    ]
