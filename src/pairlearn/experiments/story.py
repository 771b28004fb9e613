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
    chosen = list(dict.fromkeys(only))
    for name in chosen or CHAPTERS:
        title, conclusion, found = CHAPTERS[name](folder, seed)
        conclusions.append(conclusion)
        say(f"{title}: {conclusion}")
        made_by = f"pairlearn demo --only {name} --seed {seed}"
        parts += [Text(title, (conclusion, f"Made by `{made_by}`.")), *found]
    typed = " ".join(["pairlearn demo", *(f"--only {name}" for name in chosen), f"--seed {seed}"])
    parts += how_it_was_run({"seed": str(seed)}, commands=[typed])
    page = Page(
        title="What pairwise learning does",
        headline=f"{conclusions[0].partition('. ')[0].removesuffix('.')}.",  # one sentence
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
    from sklearn.datasets import load_digits
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pairlearn import AUCClassifier, Moments
    from pairlearn.streams.progressive import ProgressiveAUC

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
    curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
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
        curves["after half of the stream the digit 3 is sought, not 8", name] = points
    figure = Figure(
        title="A stream whose aim changes",
        svg=curves_figure(curves, xlabel="examples seen", ylabel="AUC of the latest 300",
                          name="stream", log_x=False),
        name="stream",
        csv_columns=["memory", "examples", "progressive_auc"],
        csv_rows=[[name, *point] for (_, name), points in curves.items() for point in points],
        alt="The AUC of recent predictions falls when the aim changes, and recovers sooner if the "
        "stream chooses how long it remembers.",
        note="Each chunk is scored first and learned then. The default keeps several half-lives "
        "side by side and takes the best on recent examples.",
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
    best = {d: max((auc[d, m], m) for m in done.methods)[1] for d in done.datasets}
    named = "; ".join(f"the best on {d} is {m}, {auc[d, m]:.4f}" for d, m in best.items())
    return (
        "The paper's claim: one previous example is enough",
        f"Methods that meet a buffer of past examples at each step took {min(slower):.0f} to "
        f"{max(slower):.0f} times the training time of ours, and the better of them was "
        + (f"at most {-worse:.4f} of AUC ahead." if worse < 0 else "nowhere ahead in AUC.")
        + f" Of all, {named}.",
        [table, figure, *curve_figures(done)],
    )


def _imbalance(folder: Path, seed: int) -> Chapter:
    """Measure test AUC with fewer and fewer positive training examples."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pairlearn import AUCClassifier, roc_auc_interval

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
        ("the digit 8, its training examples thinned out", name): [
            (float(n), _mean(found[name, n])) for n in reversed(shares)
        ]
        for name in makers
    }
    figure = Figure(
        title="Test AUC with few examples of a class",
        svg=curves_figure(curves, xlabel="positive training examples", ylabel="test AUC",
                          name="imbalance"),
        name="imbalance",
        csv_columns=["method", "positives", "auc", "standard_error"],
        csv_rows=[[name, n, _mean(found[name, n]), _error(found[name, n])]
                  for name in makers for n in shares],
        alt="Test AUC against the number of positive training examples for three methods.",
        note="Means over five splits of 70 % / 30 %. Ours and the forest as they come; logistic "
        "regression on scaled features, its C by cross-validation on the AUC.",
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
    from pairlearn import AUCClassifier, PrivateAUCClassifier
    from pairlearn.privacy.accounting.certificate import PrivacyWarning

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
    from sklearn.datasets import load_wine
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler

    from pairlearn import MetricLearner

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
    from sklearn.ensemble import HistGradientBoostingClassifier

    from pairlearn import AUCClassifier, AUCStack

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
