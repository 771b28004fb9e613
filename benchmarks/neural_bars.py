# SPDX-License-Identifier: BSD-3-Clause
"""How fast and how good networks are: ``python -m benchmarks.neural_bars [--device cuda]``.

Fits `NeuralAUCClassifier` as it comes to ijcnn1 (70 % / 30 %, stratified; PAIRLEARN_DATA names the
folder that holds ijcnn1.libsvm.xz), to 200 examples with 4 features and to six examples. A small
fit comes first, so that a GPU has started. Printed are seconds, CPU seconds and test AUC. The bars
are AUC .997 in 2 s on a GPU, .9965 in 9 s (18 CPU seconds) on two cores, and 1 s for 200 examples.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beyond import SETS, load


def measured(X: Any, y: Any, device: str, seed: int = 0) -> tuple[Any, str]:
    """Fit a model and return it with its seconds."""
    from pairlearn.torch import NeuralAUCClassifier

    begin, begin_cpu = time.perf_counter(), time.process_time()
    model = NeuralAUCClassifier(random_state=seed, device=device).fit(X, y)
    cpu = time.process_time() - begin_cpu
    return model, f"{time.perf_counter() - begin:.2f} s, {cpu:.2f} CPU s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each set."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neural_bars", description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--splits", type=int, default=1, help="splits of ijcnn1")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=200) > 0.5).astype(int)
    measured(X, y, options.device)
    model, seconds = measured(X, y, options.device)
    print(f"200 x 4 on {model.device_}: {seconds} (bar: 1 s)", flush=True)
    _, seconds = measured(X[[0, 1, 2, 3, 4, 5]], [0, 1, 0, 1, 0, 1], options.device)
    print(f"6 x 4: {seconds}", flush=True)
    if "PAIRLEARN_DATA" not in os.environ:
        parser.error("ijcnn1 is not here; name its folder by PAIRLEARN_DATA.")
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split

    X, y = load(Path(os.environ["PAIRLEARN_DATA"]), *SETS["ijcnn1"])
    for split in range(options.splits):
        parts = train_test_split(X, y, test_size=0.3, stratify=y, random_state=split)
        train, test, y_train, y_test = parts
        model, seconds = measured(train, y_train, options.device)
        auc = roc_auc_score(y_test, model.decision_function(test))
        told = model.history_[0]
        print(
            f"ijcnn1, {len(train):,} x {train.shape[1]}, split {split}: {seconds}, AUC {auc:.4f} "
            f"(held-out {model.held_out_:.4f}, epoch {told.best_epoch} of {len(told.losses)})",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
