# SPDX-License-Identifier: BSD-3-Clause
"""The story of the library in six chapters, on data that ship with scikit-learn.

Each chapter measures something, draws it, and ends in a conclusion computed from its numbers.
``pairlearn demo`` writes it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.data import load
from pairlearn.experiments.comparison.runner import Comparison, compare
from pairlearn.experiments.comparison.tables import auc_rows, cost_rows
from pairlearn.experiments.methods.table import explain, find_method
from pairlearn.experiments.report.figures import curves_figure, time_figure
from pairlearn.experiments.report.page import (
    Cell,
    Figure,
    Page,
    Part,
    Table,
    Text,
    number,
    write_page,
)
from pairlearn.experiments.report.sections import curve_figures, how_it_was_run
from pairlearn.metrics import roc_auc
from pairlearn.typing import Vector

_RIVALS = ("ours", "sgd-pair", "olp", "oam", "spauc")


def tell(
    folder: Path, *, only: Sequence[str] = (), seed: int = 0, say: Callable[[str], None]
) -> Path:
    """Write the report of some chapters, by default of all, and return its path.

    The page, its CSV files and the store of results go to `folder`. The seed determines all numbers
    except times. `say` receives the conclusion of each chapter as soon as it is ready.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[Part] = []
    conclusions = []
    for name in only or CHAPTERS:
        title, conclusion, found = CHAPTERS[name](folder, seed)
        conclusions.append(conclusion)
        say(f"{title}: {conclusion}")
        made_by = f"pairlearn demo --only {name} --seed {seed}"
        parts += [Text(title, (conclusion, f"Made by `{made_by}`.")), *found]
    parts += how_it_was_run({"seed": str(seed)}, commands=[f"pairlearn demo --seed {seed}"])
    page = Page(
        title="What pairwise learning does",
        headline=conclusions[0],
        introduction=(
            "Every number on this page was measured by the run that wrote it, on data that ship "
            "with scikit-learn; a chapter ends in what its numbers say."
        ),
        parts=parts,
    )
    return write_page(page, folder)


Chapter = tuple[str, str, list[Part]]


def _digits(digit: int = 8) -> tuple[Vector, NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return np.asarray(X, dtype=np.float64), (y == digit).astype(np.int64)


def _halves(
    X: Vector, y: NDArray[Any], seed: int, share: float = 0.3
) -> tuple[Vector, NDArray[Any], Vector, NDArray[Any]]:
    from sklearn.model_selection import train_test_split

    A, B, a, b = train_test_split(X, y, test_size=share, stratify=y, random_state=seed)
    return A, a, B, b


def _stream(folder: Path, seed: int) -> Chapter:
    """Measure the progressive AUC of a stream learned in one pass."""
    from pairlearn import AUCClassifier
    from pairlearn.streams.progressive import ProgressiveAUC

    X, y = _digits()
    order = np.random.default_rng(seed).permutation(len(y))
    model = AUCClassifier(random_state=seed)
    running = ProgressiveAUC(window=len(y))
    points: list[tuple[float, float]] = []
    for begin in range(0, len(y), 64):
        rows = order[begin : begin + 64]
        if begin:
            running.update(model.decision_function(X[rows]), y[rows] == 1)
            if running.value is not None and begin > 128:
                points.append((float(begin + len(rows)), running.value))
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
    auc = points[-1][1]
    figure = Figure(
        title="AUC of predictions made before learning",
        svg=curves_figure({("the digit 8 against the others", "one pass"): points},
                          xlabel="examples seen", ylabel="progressive AUC", name="stream",
                          log_x=False),
        name="stream",
        csv_columns=["examples", "progressive_auc"],
        csv_rows=[list(point) for point in points],
        alt="The progressive AUC rises with the number of examples seen.",
        note="Each chunk of 64 examples is scored first and learned then; the AUC is over all "
        "predictions so far.",
    )  # fmt: skip
    return (
        "A stream, learned in one pass",
        f"After one pass over {len(y)} examples, each seen once and paired with the one before it, "
        f"the AUC of all predictions made before learning is {auc:.3f}, the early ones included.",
        [figure],
    )


def _compared(folder: Path, seed: int) -> Comparison:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compare(
            [load("breast_cancer"), load("digits_8")],
            [find_method(name) for name in _RIVALS],
            store=folder / "results.sqlite", n_splits=3, seed=seed,
        )  # fmt: skip


def _paper(folder: Path, seed: int) -> Chapter:
    """Compare the paper's method with its rivals in test AUC and training time."""
    done = _compared(folder, seed)
    auc = {(row.dataset, row.method): row.auc.mean for row in auc_rows(done)}
    cpu = {(row.dataset, row.method): row.cpu_seconds for row in cost_rows(done)}
    rows: list[list[str | Cell]] = []
    for dataset in done.datasets:
        for method in done.methods:
            mean, seconds = auc[dataset, method], cpu[dataset, method]
            rows.append([dataset, method, number(mean),
                         number(seconds, ".2g"), explain(method)])  # fmt: skip
    buffers = ("olp", "oam")
    slower = [cpu[d, m] / max(cpu[d, "ours"], 1e-6) for d in done.datasets for m in buffers]
    gaps = [auc[d, "ours"] - max(auc[d, m] for m in buffers) for d in done.datasets]
    table = Table(
        title="Test AUC and training time",
        name="paper",
        note="Means and medians over three splits; parameters of all methods are chosen by "
        "cross-validation, which is not in the time.",
        columns=["data set", "method", "test AUC", "CPU s", "what it is"],
        rows=rows,
    )
    points = {key: [(max(seconds, 1e-6), auc[key])] for key, seconds in cpu.items()}
    figure = Figure(
        title="AUC against training time",
        svg=time_figure(points, series=done.methods, name="paper-time"),
        name="paper-time",
        csv_columns=["dataset", "method", "cpu_seconds", "auc"],
        csv_rows=[[*key, *point[0]] for key, point in points.items()],
        alt="Test AUC against training CPU seconds on a log axis.",
    )
    worse = min(gaps)
    return (
        "The paper's claim: one previous example is enough",
        f"Methods that meet a buffer of past examples at each step took {min(slower):.0f} to "
        f"{max(slower):.0f} times the training time of ours, and the better of them was "
        + (f"at most {-worse:.4f} of AUC ahead." if worse < 0 else "nowhere ahead in AUC."),
        [table, figure, *curve_figures(done)],
    )


def _imbalance(folder: Path, seed: int) -> Chapter:
    """Measure test AUC with fewer and fewer positive training examples."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pairlearn import AUCClassifier

    X, y = _digits()
    makers: dict[str, Callable[[int], Any]] = {
        "ours": lambda k: AUCClassifier(random_state=k),
        "logistic": lambda k: LogisticRegression(max_iter=5000),
        "logistic scaled": lambda k: make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=5000)
        ),
        "sgd": lambda k: SGDClassifier(random_state=k),
    }
    shares = (64, 32, 16, 8)
    found: dict[tuple[str, int], list[float]] = {}
    for split in range(5):
        A, a, B, b = _halves(X, y, seed + split)
        rng = np.random.default_rng(seed + split)
        positive = rng.permutation(np.flatnonzero(a == 1))
        for n_positive in shares:
            rows = np.concatenate([positive[:n_positive], np.flatnonzero(a == 0)])
            for name, make in makers.items():
                model = make(split).fit(A[rows] / 16.0, a[rows])
                value = roc_auc(b, model.decision_function(B / 16.0))
                found.setdefault((name, n_positive), []).append(value)
    curves = {
        ("the digit 8, its training examples thinned out", name): [
            (float(n), float(np.mean(found[name, n]))) for n in reversed(shares)
        ]
        for name in makers
    }
    figure = Figure(
        title="Test AUC with few examples of a class",
        svg=curves_figure(curves, xlabel="positive training examples", ylabel="test AUC",
                          name="imbalance"),
        name="imbalance",
        csv_columns=["method", "positives", "auc"],
        csv_rows=[[name, *point] for (_, name), points in curves.items() for point in points],
        alt="Test AUC against the number of positive training examples for four methods.",
        note="Means over five splits of 70 % / 30 %; all by default, features over 16; logistic "
        "scaled divides each pixel by its standard deviation.",
    )  # fmt: skip

    def said(n_positive: int) -> str:
        means = {name: float(np.mean(found[name, n_positive])) for name in makers}
        order = sorted(means, key=lambda name: -means[name])
        return ", ".join(f"{name} {means[name]:.4f}" for name in order)

    many, few = max(shares), min(shares)
    gain = float(np.mean(found["logistic", few]) - np.mean(found["logistic scaled", few]))
    return (
        "Imbalance",
        f"With {many} positive examples against about 1,100 negative ones the test AUC is: "
        f"{said(many)}; with {few}: {said(few)}. All pixels have one unit, which is knowledge that "
        "so few positives cannot replace: ours scales each pixel by its spread, and logistic "
        f"regression that does so too {'loses' if gain > 0 else 'gains'} {abs(gain):.3f}, a part "
        "of the difference.",
        [figure],
    )


def _private(folder: Path, seed: int) -> Chapter:
    """Measure test AUC without privacy and at several epsilons, with a certificate."""
    from pairlearn import AUCClassifier, PrivateAUCClassifier
    from pairlearn.estimators.private.mixin import PrivacyWarning

    X, y = _digits(0)
    epsilons = (0.5, 1.0, 4.0)
    values: dict[str, list[float]] = {"not private": []}
    certificate = None
    for split in range(5):
        A, a, B, b = _halves(X, y, seed + split)
        plain = AUCClassifier(random_state=split).fit(A, a)
        values["not private"].append(roc_auc(b, plain.decision_function(B)))
        for epsilon in epsilons:
            with warnings.catch_warnings():
                # The demonstration uses seeded noise, and its certificate says so.
                warnings.simplefilter("ignore", PrivacyWarning)
                model = PrivateAUCClassifier(
                    epsilon, bounds=(0.0, 16.0), labels=(0, 1), random_state=split
                ).fit(A, a)
            certificate = model.certificate_
            found = roc_auc(b, model.decision_function(B))
            values.setdefault(f"epsilon {epsilon:g}", []).append(found)
    means = {name: float(np.mean(entries)) for name, entries in values.items()}
    assert certificate is not None
    table = Table(
        title="Test AUC by privacy",
        name="private",
        note="Means over five splits of 70 % / 30 %. The bounds of the pixels, 0 and 16, are "
        f"public. The last certificate: {certificate.neighbours} neighbours, epsilon "
        f"{certificate.epsilon:g}, delta {certificate.delta:.2g}, mechanism "
        f"{certificate.mechanism}; the noise of this demonstration is seeded, so it says "
        f"private: {certificate.private}.",
        columns=["model", "test AUC"],
        rows=[[name, number(mean)] for name, mean in means.items()],
    )
    said = ", ".join(f"{means[f'epsilon {e:g}']:.3f} at epsilon {e:g}" for e in epsilons)
    return (
        "A private model with its certificate",
        f"The digit 0 against the others from {int(0.7 * len(y))} examples: test AUC "
        f"{means['not private']:.3f} without privacy, {said}. Each private model carries a "
        "certificate that a program can check (`pairlearn privacy certify`).",
        [table],
    )


def _metric(folder: Path, seed: int) -> Chapter:
    """Compare nearest neighbours in Euclidean and in learned distance."""
    from sklearn.datasets import load_wine
    from sklearn.neighbors import KNeighborsClassifier

    from pairlearn import MetricLearner

    X, y = load_wine(return_X_y=True)
    before, after = [], []
    for split in range(5):
        A, a, B, b = _halves(np.asarray(X), y, seed + split)
        before.append(KNeighborsClassifier(3).fit(A, a).score(B, b))
        metric = MetricLearner(random_state=split).fit(A, a)
        nearest = KNeighborsClassifier(3).fit(metric.transform(A), a)
        after.append(nearest.score(metric.transform(B), b))
    means = float(np.mean(before)), float(np.mean(after))
    table = Table(
        title="Accuracy of three nearest neighbours",
        name="metric",
        note="Means over five splits of 70 % / 30 %; wine as it comes, nothing scaled.",
        columns=["distance", "test accuracy"],
        rows=[["Euclidean", number(means[0], ".3f")], ["learned", number(means[1], ".3f")]],
    )
    return (
        "A metric before and after",
        f"Three nearest neighbours name {100 * means[0]:.0f} % of the wines in Euclidean distance "
        f"and {100 * means[1]:.0f} % in the learned one.",
        [table],
    )


def _curved(folder: Path, seed: int) -> Chapter:
    """Compare linear, piecewise linear and random Fourier features on a disc."""
    from pairlearn import AUCClassifier

    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(3000, 2))
    y = (np.hypot(X[:, 0], X[:, 1]) + 0.3 * rng.normal(size=3000) < 1.2).astype(int)
    A, a, B, b = X[:2000], y[:2000], X[2000:], y[2000:]
    means = {}
    for name in ("linear", "hats", "fourier"):
        model = AUCClassifier(features=name, random_state=seed).fit(A, a)
        means[name] = roc_auc(b, model.decision_function(B))
    table = Table(
        title="Test AUC on a disc",
        name="curved",
        note="2,000 training examples, 1,000 test ones; positive within a disc, with noise.",
        columns=["features", "test AUC"],
        rows=[[name, number(mean, ".3f")] for name, mean in means.items()],
    )
    return (
        "Where a plane fails",
        f"Points inside a disc against those around it: a linear score has a test AUC of "
        f"{means['linear']:.3f}, piecewise linear functions of each feature {means['hats']:.3f}, "
        f"random Fourier features {means['fourier']:.3f}, all by the same learner.",
        [table],
    )


CHAPTERS: dict[str, Callable[[Path, int], Chapter]] = {
    "stream": _stream,
    "paper": _paper,
    "imbalance": _imbalance,
    "private": _private,
    "metric": _metric,
    "curved": _curved,
}
