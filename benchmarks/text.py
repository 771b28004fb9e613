# SPDX-License-Identifier: BSD-3-Clause
"""Text beside tuned logistic regression: ``python -m benchmarks.text``.

The texts are the docstrings of installed packages, and a task is to tell those of one package from
all others. Rows are words of a text: their counts, whether they are there, or tf-idf. Each split
trains on `--rows` texts and tests on as many. Logistic regression (liblinear) gets the rows as they
are, and its C is chosen of seven by the AUC of three folds. Ours is `AUCClassifier` as it comes: a
fit, and one pass in chunks of 500. Printed are means over tasks and splits of the test AUC, and CPU
seconds of one fit.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Packages whose docstrings are read, those of them that are installed.
PACKAGES = (
    "scipy", "sklearn", "numpy", "pandas", "matplotlib", "numba", "networkx", "river", "sphinx",
    "dask", "distributed", "polars", "rich", "hypothesis",
)  # fmt: skip
#: A package is a task if a split trains on at least this many of its texts.
LEAST = 20
#: A shorter docstring has too few words.
_LETTERS = 60


def read_texts() -> tuple[list[str], list[str]]:
    """Return docstrings, each once, and the package of each."""
    texts: dict[str, str] = {}
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            continue
        for path in sorted(Path(found.origin).parent.rglob("*.py")):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SyntaxWarning)
                    tree = ast.parse(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue  # a template, or a test of what is no Python
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    text = ast.get_docstring(node) or ""
                    if len(text) > _LETTERS:
                        # Overloads and copies begin alike.
                        texts.setdefault(text[:120], f"{package} {text}")
    pairs = [text.split(" ", 1) for text in texts.values()]
    return [text for _, text in pairs], [package for package, _ in pairs]


def tables(texts: Sequence[str]) -> dict[str, Any]:
    """Return the rows of texts, by the name of what they hold."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    counts = CountVectorizer(token_pattern=r"(?u)\b\w+\b").fit_transform(texts).astype(float)
    there = (counts > 0.0).astype(float)
    return {"counts": counts, "there": there, "tf-idf": TfidfTransformer().fit_transform(counts)}


def contestants() -> dict[str, Callable[[Any, Any], Any]]:
    """Return what trains each model on rows and labels."""
    from sklearn.linear_model import LogisticRegressionCV

    from pairlearn import AUCClassifier

    def tuned(X: Any, y: Any) -> Any:
        settings: dict[str, Any] = {"solver": "liblinear", "scoring": "roc_auc", "cv": 3}
        return LogisticRegressionCV(Cs=np.logspace(-3, 3, 7), **settings).fit(X, y)

    def one_pass(X: Any, y: Any) -> Any:
        model = AUCClassifier(random_state=0)
        for begin in range(0, len(y), 500):
            model.partial_fit(X[begin : begin + 500], y[begin : begin + 500], classes=[0, 1])
        return model

    def ours(X: Any, y: Any) -> Any:
        return AUCClassifier(random_state=0).fit(X, y)

    return {"ours": ours, "ours, one pass": one_pass, "logistic": tuned}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each number of rows."""
    from sklearn.metrics import roc_auc_score

    parser = argparse.ArgumentParser(prog="python -m benchmarks.text", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 4000], help="training texts")
    parser.add_argument("--splits", type=int, default=2, help="splits of each task (default 2)")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    texts, labels = read_texts()
    fits = contestants()
    print(f"{len(texts)} texts; mean test AUC, and CPU seconds of one fit")
    print("| rows | words | tasks | what | " + " | ".join(fits) + " |")
    print("| --- " * (4 + len(fits)) + "|")
    for n in options.rows:
        found: dict[str, list[list[tuple[float, float]]]] = {}
        for split in range(options.splits):
            order = np.random.default_rng(split).permutation(len(texts))[: 2 * n]
            packages = np.array(labels)[order]
            for name, X in tables([texts[k] for k in order]).items():
                for package in sorted(set(packages)):
                    y = (packages == package).astype(int)
                    if LEAST <= y[:n].sum() <= n // 5 and y[n:].any():
                        results = []
                        for train in fits.values():
                            begin = time.process_time()
                            model = train(X[:n], y[:n])
                            seconds = time.process_time() - begin
                            auc = roc_auc_score(y[n:], model.decision_function(X[n:]))
                            results.append((float(auc), seconds))
                        found.setdefault(name, []).append(results)
        for name, rows in found.items():
            means = np.mean(rows, axis=0)
            cells = [f"{auc:.4f} ({seconds:.2f} s)" for auc, seconds in means]
            print(f"| {n} | {X.shape[1]} | {len(rows)} | {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
