# SPDX-License-Identifier: BSD-3-Clause
"""The paper's figures: AUC against CPU time, the cost of sampling, the log-link loss.

The paper's source has no numbers for them, so they are drawn as in the paper and summarised by
numbers of our own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pairlearn.data.dataset import Dataset
from pairlearn.data.sources import PAPER_SETS
from pairlearn.data.splits import prepare
from pairlearn.experiments.comparison.cell import child_seed, split_of
from pairlearn.experiments.comparison.curves import Trajectory, trajectories
from pairlearn.experiments.comparison.runner import Comparison
from pairlearn.experiments.methods.base import Method
from pairlearn.experiments.methods.pairwise import RecipeMethod
from pairlearn.experiments.paper.outcome import Outcome, Settings, Shelf, run_comparison
from pairlearn.experiments.paper.sampling import SCHEMES, measure_sampling
from pairlearn.experiments.plain_text import paragraph, text_table
from pairlearn.experiments.report.figures import curves_figure
from pairlearn.experiments.report.page import Cell, Figure, Table, number
from pairlearn.experiments.report.sections import comparison_parts
from pairlearn.metrics.risk import pair_risk

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


def hinge_figure(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce fig-hinge (three data sets) or fig-hinge-more (the other three)."""
    sets = PAPER_SETS[:3] if name == "fig-hinge" else PAPER_SETS[3:]
    title = "Test AUC against CPU time (log axis), hinge loss"
    return _time_figure(name, title, timed_methods("hinge"), sets, settings, shelf)


def square_figure(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce fig-square."""
    title = "Test AUC against CPU time (log axis), square loss"
    return _time_figure(name, title, timed_methods("square"), PAPER_SETS, settings, shelf)


def _time_figure(
    name: str,
    title: str,
    methods: list[Method],
    sets: tuple[str, ...],
    settings: Settings,
    shelf: Shelf,
) -> Outcome:
    """Run the timing comparison; return its curves and a table of final AUC and seconds."""
    datasets = shelf.take(sets)
    methods = settings.chosen(methods)
    if not datasets:
        return Outcome(name, title, "no data set is available, so nothing was run.", ())
    comparison = run_comparison(datasets, methods, settings=settings, n_splits=5)
    paths = trajectories(comparison)
    rows = [_summary(path, _best(paths, path.dataset)) for path in paths]
    head = ("data set", "method", "AUC at the end", "CPU s", f"CPU s to within {_NEAR:g} of best")
    table = Table(
        title="AUC and time",
        name="times",
        note=f"Means over {comparison.n_splits} splits.",
        columns=head,
        rows=rows,
    )
    curves = _kept(comparison)
    plain = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in rows]
    text = "\n".join(
        [paragraph(_SAME), text_table(head, plain), *(f.line for f in comparison.failures)]
    )
    parts = [*curves[:1], table, *curves[1:]]
    return Outcome.shown(name, title, text, [_SAME], parts, len(comparison.failures))


def _best(paths: list[Trajectory], dataset: str) -> float:
    return max(float(path.auc_mean[-1]) for path in paths if path.dataset == dataset)


def _summary(path: Trajectory, best: float) -> list[str | Cell]:
    near = np.flatnonzero(path.auc_mean >= best - _NEAR)
    seconds = float(path.cpu_seconds[near[0]]) if len(near) else math.nan
    end = float(path.cpu_seconds[-1])
    reached = Cell(f"{seconds:.3g}" if len(near) else "not reached", seconds)
    auc = number(float(path.auc_mean[-1]))
    return [path.dataset, path.method, auc, number(end, ".3g"), reached]


def sampling_figure(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce fig-sampling: the cost of drawing an example and of drawing a pair."""
    title = "CPU time of one draw against the number of examples"
    sizes = (1_000, 10_000, 100_000) if settings.quick else (1_000, 10_000, 100_000, 1_000_000)
    times = measure_sampling(sizes, repeats=2 if settings.quick else 5, seed=settings.seed)
    claim = (
        "The paper finds that drawing a random pair becomes slower than drawing one example as n "
        "grows. Here this holds only for the legacy choice(n, 2, replace=False), which permutes "
        "all n indices for each pair. Two draws with a shift are just as uniform over distinct "
        "pairs, and their time does not depend on n, so the claim rests on how the pair is drawn."
    )
    curves = {
        ("one draw", scheme): [(float(t.n), t.seconds) for t in times if t.scheme == scheme]
        for scheme in SCHEMES
    }
    rows = [[t.scheme, str(t.n), f"{t.seconds:.3g}"] for t in times]
    figure = Figure(
        title=title,
        name="curves",
        svg=curves_figure(curves, xlabel="examples n (log)", ylabel="CPU seconds (log)",
                          name="sampling", log_y=True),
        csv_columns=["scheme", "n", "seconds"],
        csv_rows=[[t.scheme, t.n, t.seconds] for t in times],
        alt="CPU seconds of one draw against n; only the legacy choice grows with n.",
    )  # fmt: skip
    table = Table(
        title="CPU seconds of one draw",
        name="seconds",
        columns=["scheme", "n", "CPU s"],
        rows=[[t.scheme, number(t.n, "d"), number(t.seconds, ".3g")] for t in times],
    )
    text = f"{paragraph(claim)}\n{text_table(('scheme', 'n', 'CPU s a draw'), rows)}"
    return Outcome.shown(name, title, text, [claim], [figure, table])


def loglink_figure(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Reproduce fig-loglink: Algorithm 1 on the square loss after a logistic link."""
    title = "Convergence of Algorithm 1 on the log-link loss (1 - 1/(1 + exp(-t)))^2"
    methods = _loglink()
    datasets = shelf.take(PAPER_SETS)
    if not datasets:
        return Outcome(name, title, "no data set is available, so nothing was run.", ())
    comparison = run_comparison(datasets, methods, settings=settings, n_splits=5)
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
        title="Pair risk during training",
        name="risk",
        svg=curves_figure(risks, xlabel="gradients (log)", ylabel="pair risk", name="loglink-risk"),
        csv_columns=["dataset", "method", "n_gradients", "risk"],
        csv_rows=[[*key, *point] for key, points in risks.items() for point in points],
        alt="Pair risk of the log-link loss against the number of gradients for each data set.",
    )
    rows = []
    for path in trajectories(comparison):
        (_, first), *_, (_, last) = risks[path.dataset, path.method]
        ends = (f"{path.auc_mean[-1]:.4f}", f"{path.cpu_seconds[-1]:.3g}")
        rows.append((path.dataset, path.method, *ends, f"{first:.4f}", f"{last:.4f}"))
    head = ("data set", "steps", "AUC at the end", "CPU s", "risk after 16 steps", "at the end")
    kept = _kept(comparison)
    text = "\n".join(
        [paragraph(remark), text_table(head, rows), *(f.line for f in comparison.failures)]
    )
    parts = [*kept[:1], figure, *kept[1:]]
    return Outcome.shown(name, title, text, [remark], parts, len(comparison.failures))


def _kept(comparison: Comparison) -> list[Table | Figure]:
    """Return the parts of a comparison that a figure's page shows, the curves first."""
    if not comparison.results:
        return []
    wanted = ("figure-curves", "results", "failures", "warnings")
    return [part for part in comparison_parts(comparison) if part.name in wanted]


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
