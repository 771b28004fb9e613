# SPDX-License-Identifier: BSD-3-Clause
"""Many classes beside multinomial logistic regression: ``python -m benchmarks.many_classes``.

Sets are vehicle, segment, dna and letter of a folder (``--data``, or PAIRLEARN_DATA) and the digits
that ship with scikit-learn. Each split is 70 % / 30 %, stratified, the same for both. Logistic
regression has scaled features, `AUCClassifier` is as it comes. Printed are, ours / theirs, means
over splits of Hand and Till's M, accuracy, log loss and CPU seconds of `fit`. M is that of the
scores of pairs: our own, and the difference of two logits for logistic regression, which is better
for it than M of its probabilities.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.data import DataError, read_libsvm

SETS = ("vehicle_scale", "segment.scale", "dna.scale", "letter.scale")
COLUMNS = ("M", "accuracy", "log loss", "CPU s")


def read_sets(folder: Path, wanted: Sequence[str]) -> Iterator[tuple[str, Any, NDArray[Any]]]:
    """Yield the sets asked for, with dense rows; files may lie in the folder or in league/."""
    for name in SETS:
        if wanted and name not in wanted:
            continue
        paths = [*folder.glob(f"{name}.libsvm*"), *folder.glob(f"league/{name}.libsvm*")]
        if not paths:
            raise DataError(
                f"{name} is neither in {folder} nor in {folder / 'league'}; name a folder that has "
                "it (--data), or leave it out (--sets)."
            )
        yield (name, *read_libsvm(paths[0], dense=True))
    if not wanted or "digits" in wanted:
        from sklearn.datasets import load_digits

        yield ("digits", *load_digits(return_X_y=True))


def run_split(X: Any, y: NDArray[Any], split: int) -> NDArray[np.float64]:
    """Return a row for ours and one for logistic regression: `COLUMNS`."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pairlearn import AUCClassifier, HandTill

    A, B, a, b = train_test_split(X, y, test_size=0.3, stratify=y, random_state=split)
    rows = []
    for model in (
        AUCClassifier(random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begin = time.process_time()
            model.fit(A, a)
            cpu = time.process_time() - begin
        if isinstance(model, AUCClassifier):
            scores = model.pair_scores(B)
        else:
            logits = model.decision_function(B)
            pairs = combinations(range(logits.shape[1]), 2)
            scores = np.column_stack([logits[:, v] - logits[:, u] for u, v in pairs])
        accuracy = float((model.predict(B) == b).mean())
        m = HandTill(pairs=True)(b, scores)
        rows.append((m, accuracy, float(log_loss(b, model.predict_proba(B))), cpu))
    return np.array(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PAIRLEARN_DATA"))
    parser.add_argument("--sets", default="", help="names, separated by commas")
    parser.add_argument("--splits", type=int, default=5)
    asked = parser.parse_args(arguments)
    wanted = [name for name in asked.sets.split(",") if name]
    unknown = sorted(set(wanted) - {*SETS, "digits"})
    if unknown:
        parser.error(f"--sets must be among {', '.join((*SETS, 'digits'))}, got {unknown[0]!r}.")
    if asked.data is None and wanted != ["digits"]:
        parser.error("name the folder of the sets by --data or PAIRLEARN_DATA.")
    # What is imported and compiled on the way is not counted.
    X = np.random.default_rng(0).normal(size=(90, 3))
    run_split(X, np.arange(90) % 3, 0)
    print(f"{'ours / multinomial':28}", *(f"{name:>17}" for name in COLUMNS))
    for name, X, y in read_sets(Path(asked.data or "."), wanted):
        ours, theirs = np.mean([run_split(X, y, k) for k in range(asked.splits)], axis=0)
        title = f"{name} ({len(y)} x {X.shape[1]}, {len(np.unique(y))})"
        cells = (f"{o:.4f} / {t:.4f}".rjust(17) for o, t in zip(ours, theirs, strict=True))
        print(f"{title:28}", *cells, flush=True)


if __name__ == "__main__":
    main()
