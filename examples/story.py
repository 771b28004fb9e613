# SPDX-License-Identifier: BSD-3-Clause
"""The story of the library in six chapters, on data that ship with scikit-learn.

Each chapter measures something, draws it, and ends in a conclusion computed from its numbers::

    python examples/story.py --report report
    python examples/story.py --only stream --only private

It takes about a minute and writes a page, the pictures and the tables as CSV files.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pairlearn import (
    AUCClassifier,
    AUCStack,
    MetricLearner,
    Moments,
    PrivateAUCClassifier,
    roc_auc_interval,
)
from pairlearn.data import load
from pairlearn.experiments.comparison.runner import ComparisonError, compare
from pairlearn.experiments.comparison.store import StoreError
from pairlearn.experiments.comparison.tables import auc_rows, cost_rows
from pairlearn.experiments.methods.table import explain, find_method
from pairlearn.metrics import roc_auc
from pairlearn.privacy.accounting.certificate import PrivacyWarning
from pairlearn.streams.progressive import ProgressiveAUC
from pairlearn.typing import Vector

_RIVALS = ("ours", "sgd-pair", "olp", "oam", "spauc")


class Table(NamedTuple):
    """A table of a chapter; `name` is that of its CSV file."""

    title: str
    name: str
    note: str
    columns: list[str]
    rows: list[list[str]]


class Picture(NamedTuple):
    """A picture of a chapter; `name` is that of its file."""

    title: str
    name: str
    note: str
    figure: Figure


Chapter = tuple[str, str, list[Table | Picture]]

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<title>pairlearn: what pairwise learning does</title>
<style>body{font:16px/1.5 sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.2rem .8rem;
  border-bottom:1px solid #ccc;text-align:left}
img{max-width:100%}.note{color:#555}</style>
<h1>What pairwise learning does</h1>
<p>Every number on this page was measured by the run that wrote it, on data that ship with
scikit-learn; a chapter ends in what its numbers say. Made by <code>{{ command }}</code>.</p>
{% for title, conclusion, parts in chapters %}<h2>{{ title }}</h2><p>{{ conclusion }}</p>
{% for part in parts %}<h3>{{ part.title }}</h3>
{% if part.columns is defined %}<table>
<tr>{% for name in part.columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in part.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>{% else %}<img src="{{ part.name }}.svg" alt="{{ part.title }}">{% endif %}
<p class="note">{{ part.note }}</p>
{% endfor %}{% endfor %}</html>
"""


def tell(
    folder: Path, *, only: Sequence[str] = (), seed: int = 0, say: Callable[[str], None] = print
) -> Path:
    """Write the page of some chapters, by default of all, and return its path.

    The seed determines all numbers except times. `say` receives each conclusion as soon as it is
    ready.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(dict.fromkeys(only))
    chapters = []
    for name in chosen or CHAPTERS:
        title, conclusion, parts = CHAPTERS[name](folder, seed)
        say(f"{title}: {conclusion}")
        chapters.append((title, conclusion, parts))
        for part in parts:
            if isinstance(part, Picture):
                part.figure.savefig(folder / f"{part.name}.svg")
            else:
                with (folder / f"{part.name}.csv").open("w", newline="") as file:
                    csv.writer(file).writerows([part.columns, *part.rows])
    typed = ["python examples/story.py", *(f"--only {name}" for name in chosen), f"--seed {seed}"]
    template = jinja2.Environment(autoescape=True).from_string(_PAGE)
    page = folder / "index.html"
    page.write_text(template.render(chapters=chapters, command=" ".join(typed)), encoding="utf-8")
    return page


def curves_picture(
    title: str, name: str, note: str, curves: dict[str, list[tuple[float, float]]], xlabel: str,
    ylabel: str, *, log: bool = False,
) -> Picture:  # fmt: skip
    """Return a picture of curves by name."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    for label, points in curves.items():
        ax.plot(*zip(*points, strict=True), marker="o" if log else None, label=label)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if log:
        ax.set_xscale("log")
    ax.legend()
    return Picture(title, name, note, figure)


def number(value: float, form: str = ".4f") -> str:
    """Return a number as a table shows it."""
    return format(value, form)


def _digits(digit: int = 8) -> tuple[Vector, NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    return np.asarray(X, dtype=np.float64), (y == digit).astype(np.int64)


def _halves(
    X: Vector, y: NDArray[Any], seed: int, share: float = 0.3
) -> tuple[Vector, NDArray[Any], Vector, NDArray[Any]]:

    A, B, a, b = train_test_split(X, y, test_size=share, stratify=y, random_state=seed)
    return A, a, B, b


#: Rows of a chunk of a stream.
_CHUNK = 32


def _one_pass(model: Any, X: Vector, y: NDArray[Any]) -> Vector:
    """Teach a stream chunk by chunk; return the scores of each chunk before it was learned."""
    scores = np.zeros(len(y))
    for begin in range(0, len(y), _CHUNK):
        rows = slice(begin, begin + _CHUNK)
        if begin:
            scores[rows] = model.decision_function(X[rows])
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
    return scores


def _stream(folder: Path, seed: int) -> Chapter:
    """Compare one pass with fits that see all rows, and memories where the aim changes."""
    X, y = _digits()
    all_rows, other, ours = "fit, all rows at once", "scaled, averaged SGDClassifier", "one pass"
    values: dict[str, list[float]] = {}
    for split in range(5):
        A, a, B, b = _halves(X, y, seed + split)
        model = AUCClassifier(random_state=split)
        _one_pass(model, A, a)
        scaler = StandardScaler().fit(A)
        sgd = SGDClassifier(loss="log_loss", average=True, random_state=split)
        _one_pass(sgd, scaler.transform(A), a)
        whole = AUCClassifier(random_state=split).fit(A, a)
        for name, fitted in (
            (ours, model), (all_rows, whole), (other, make_pipeline(scaler, sgd)),
        ):  # fmt: skip
            values.setdefault(name, []).append(roc_auc(b, fitted.decision_function(B)))
    table = Table(
        title="Test AUC after one pass",
        name="stream-test",
        note=f"The digit 8 against the others, 70 % / 30 %, in chunks of {_CHUNK} examples; means "
        "over five splits and their standard errors. The scales of SGDClassifier come from all "
        "training rows.",
        columns=["learner", "test AUC", "standard error"],
        rows=[[name, number(_mean(found)), number(_error(found))]
              for name, found in values.items()],
    )  # fmt: skip
    order = np.random.default_rng(seed).permutation(len(y))
    digits = load_digits().target[order]
    half = len(digits) // 2
    aim = np.where(np.arange(len(digits)) < half, digits == 8, digits == 3).astype(np.int64)
    curves: dict[str, list[tuple[float, float]]] = {}
    after: dict[str, float] = {}
    memories = {"chosen": AUCClassifier(random_state=seed),
                "never forgets": AUCClassifier(solver=Moments(memory=np.inf))}  # fmt: skip
    for name, learner in memories.items():
        scores = _one_pass(learner, X[order], aim)
        after[name] = roc_auc(aim[half:], scores[half:])
        running, points = ProgressiveAUC(window=300), []
        for k in range(_CHUNK, len(aim)):
            running.update(scores[k : k + 1], aim[k : k + 1] == 1)
            if k >= 150 and k % 25 == 0 and running.value is not None:
                points.append((float(k), running.value))
        curves[name] = points
    figure = curves_picture(
        "A stream whose aim changes: after half of it the digit 3 is sought, not 8", "stream",
        "Each chunk is scored first and learned then. The default keeps several half-lives side by "
        "side and takes the best on recent examples.",
        curves, "examples seen", "AUC of the latest 300",
    )  # fmt: skip
    gap = _mean(values[all_rows]) - _mean(values[ours])
    lead = _mean(values[ours]) - _mean(values[other])
    return (
        "A stream, learned in one pass",
        f"One pass over {int(0.7 * len(y))} examples has a test AUC of {_mean(values[ours]):.3f}, "
        f"{abs(gap):.3f} {'below' if gap >= 0 else 'above'} a fit that sees all of them at once, "
        f"and {abs(lead):.3f} {'above' if lead >= 0 else 'below'} one pass of scaled, averaged "
        f"SGDClassifier. When the digit that is sought changes halfway, the AUC of the second half "
        f"is {after['chosen']:.3f}, as the stream chooses how long it remembers (half-life "
        f"{memories['chosen'].half_life_:g} at the end), and {after['never forgets']:.3f} if it "
        "never forgets.",
        [table, figure],
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _error(values: Sequence[float]) -> float:
    """Return the standard error of a mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _paper(folder: Path, seed: int) -> Chapter:
    """Compare the paper's method with its rivals in test AUC and training time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = compare(
            [load("breast_cancer"), load("digits_8")],
            [find_method(name) for name in _RIVALS],
            store=folder / "results.jsonl", n_splits=3, seed=seed,
        )  # fmt: skip
    auc = {(row.dataset, row.method): row.auc.mean for row in auc_rows(done)}
    cpu = {(row.dataset, row.method): row.cpu_seconds for row in cost_rows(done)}
    rows = []
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
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    for method in done.methods:
        points = [(max(cpu[d, method], 1e-6), auc[d, method]) for d in done.datasets]
        ax.scatter(*zip(*points, strict=True), label=method)
    ax.set(xlabel="training CPU seconds", ylabel="test AUC", xscale="log")
    ax.legend()
    picture = Picture("AUC against training time", "paper-time", "One point a data set.", figure)
    worse = min(gaps)
    best = {d: max((auc[d, m], m) for m in done.methods)[1] for d in done.datasets}
    named = "; ".join(f"the best on {d} is {m}, {auc[d, m]:.4f}" for d, m in best.items())
    return (
        "The paper's claim: one previous example is enough",
        f"Methods that meet a buffer of past examples at each step took {min(slower):.0f} to "
        f"{max(slower):.0f} times the training time of ours, and the better of them was "
        + (f"at most {-worse:.4f} of AUC ahead." if worse < 0 else "nowhere ahead in AUC.")
        + f" Of all, {named}.",
        [table, picture],
    )


def _imbalance(folder: Path, seed: int) -> Chapter:
    """Measure test AUC with fewer and fewer positive training examples."""
    X, y = _digits()
    grid = {"logisticregression__C": [0.0001, 0.001, 0.01, 0.1, 1.0]}
    makers: dict[str, Callable[[int], Any]] = {
        "ours": lambda k: AUCClassifier(random_state=k),
        "logistic": lambda k: GridSearchCV(
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)), grid,
            scoring="roc_auc", cv=4,
        ),
        "forest": lambda k: RandomForestClassifier(200, random_state=k),
    }  # fmt: skip
    shares = (64, 32, 16, 8)
    found: dict[tuple[str, int], list[float]] = {}
    interval = None
    for split in range(5):
        A, a, B, b = _halves(X, y, seed + split)
        rng = np.random.default_rng(seed + split)
        positive = rng.permutation(np.flatnonzero(a == 1))
        for n_positive in shares:
            rows = np.concatenate([positive[:n_positive], np.flatnonzero(a == 0)])
            for name, make in makers.items():
                model = make(split).fit(A[rows], a[rows])
                scores = (
                    model.predict_proba(B)[:, 1] if name == "forest" else model.decision_function(B)
                )
                found.setdefault((name, n_positive), []).append(roc_auc(b, scores))
                if name == "ours" and n_positive == min(shares):
                    interval = roc_auc_interval(b, scores)
    curves = {
        name: [(float(n), _mean(found[name, n])) for n in reversed(shares)] for name in makers
    }
    figure = curves_picture(
        "Test AUC of the digit 8, its training examples thinned out", "imbalance",
        "Means over five splits of 70 % / 30 %. Ours and the forest as they come; logistic "
        "regression on scaled features, its C by cross-validation on the AUC.",
        curves, "positive training examples", "test AUC", log=True,
    )  # fmt: skip

    def said(n_positive: int) -> str:
        order = sorted(makers, key=lambda name: -_mean(found[name, n_positive]))
        return ", ".join(
            f"{name} {_mean(found[name, n_positive]):.3f} +- {_error(found[name, n_positive]):.3f}"
            for name in order
        )

    assert interval is not None
    many, few = max(shares), min(shares)
    return (
        "Imbalance",
        f"With {many} positive examples against about 1,100 negative ones the test AUC is: "
        f"{said(many)}; with {few}: {said(few)} (standard errors over splits; the best is named "
        f"first). The interval of ours in the last split, from {int(b.sum())} positive test "
        f"examples, is {interval.low:.3f} to {interval.high:.3f}.",
        [figure],
    )


def _private(folder: Path, seed: int) -> Chapter:
    """Measure test AUC without privacy and at several epsilons, with a certificate."""
    X, y = _digits(3)
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
        f"The digit 3 against the others from {int(0.7 * len(y))} examples: test AUC "
        f"{means['not private']:.3f} without privacy, {said}. Privacy at epsilon 1 costs "
        f"{means['not private'] - means['epsilon 1']:.3f} here, and less with more examples. Each "
        "private model carries a certificate that a program can check (`pairlearn privacy "
        "certify`).",
        [table],
    )


def _metric(folder: Path, seed: int) -> Chapter:
    """Compare nearest neighbours in Euclidean and in learned distance."""
    X, y = load_wine(return_X_y=True)
    before, scaled, after = [], [], []
    for split in range(5):
        A, a, B, b = _halves(np.asarray(X), y, seed + split)
        before.append(KNeighborsClassifier(3).fit(A, a).score(B, b))
        scaler = StandardScaler().fit(A)
        nearest = KNeighborsClassifier(3).fit(scaler.transform(A), a)
        scaled.append(nearest.score(scaler.transform(B), b))
        metric = MetricLearner(random_state=split).fit(A, a)
        nearest = KNeighborsClassifier(3).fit(metric.transform(A), a)
        after.append(nearest.score(metric.transform(B), b))
    means = _mean(before), _mean(scaled), _mean(after)
    table = Table(
        title="Accuracy of three nearest neighbours",
        name="metric",
        note="Means over five splits of 70 % / 30 % of the wines.",
        columns=["distance", "test accuracy"],
        rows=[
            ["Euclidean", number(means[0], ".3f")],
            ["Euclidean, scaled features", number(means[1], ".3f")],
            ["learned", number(means[2], ".3f")],
        ],
    )
    return (
        "A metric before and after",
        f"Three nearest neighbours name {100 * means[0]:.0f} % of the wines in Euclidean distance, "
        f"{100 * means[1]:.0f} % if features are scaled first, and {100 * means[2]:.0f} % in the "
        "learned one.",
        [table],
    )


def _curved(folder: Path, seed: int) -> Chapter:
    """Compare a plane, curves, trees and a stack of them on a disc."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(3000, 2))
    y = (np.hypot(X[:, 0], X[:, 1]) + 0.3 * rng.normal(size=3000) < 1.2).astype(int)
    A, a, B, b = X[:2000], y[:2000], X[2000:], y[2000:]
    models: dict[str, Any] = {
        name: AUCClassifier(features=name, random_state=seed)
        for name in ("linear", "hats", "fourier")
    }
    models["boosted trees"] = HistGradientBoostingClassifier(random_state=seed)
    models["AUCStack"] = AUCStack(random_state=seed)
    means = {
        name: roc_auc(b, model.fit(A, a).decision_function(B)) for name, model in models.items()
    }
    best = max(means, key=means.__getitem__)
    table = Table(
        title="Test AUC on a disc",
        name="curved",
        note="2,000 training examples, 1,000 test ones; positive within a disc, with noise.",
        columns=["model", "test AUC"],
        rows=[[name, number(mean, ".3f")] for name, mean in means.items()],
    )
    return (
        "Where a plane fails",
        f"Points inside a disc against those around it: a linear score has a test AUC of "
        f"{means['linear']:.3f}, piecewise linear functions of each feature {means['hats']:.3f}, "
        f"random Fourier features {means['fourier']:.3f}, scikit-learn's boosted trees "
        f"{means['boosted trees']:.3f}, and AUCStack, which weighs several models, "
        f"{means['AUCStack']:.3f}. The best is {best}.",
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the chapters that the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description="Tell what the library does, measured here.")
    parser.add_argument("--report", type=Path, default=Path("report"), help="folder of the page")
    parser.add_argument("--only", action="append", default=[], choices=list(CHAPTERS))
    parser.add_argument("--seed", type=int, default=0, help="determines all numbers but times")
    given = parser.parse_args(arguments)
    try:
        page = tell(given.report, only=given.only, seed=given.seed)
    except (StoreError, ComparisonError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"report: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
