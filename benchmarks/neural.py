# SPDX-License-Identifier: BSD-3-Clause
"""Small networks against LightGBM: ``python -m benchmarks.neural [--splits 5]``.

The fourteen sets and the splits of `benchmarks.beyond` (PAIRLEARN_DATA names their folder; 70 % /
30 %, stratified). Ours is ``NeuralAUCClassifier(random_state=0)``, untuned, on one thread of the
CPU unless ``--device`` says otherwise. The rival is LightGBM (``pip install lightgbm``), untuned
too, one thread. Printed are means over splits of test AUC, with the standard error of the
difference, and CPU seconds of `fit`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beyond import SETS, load

#: A difference of AUC that counts as level, and the least AUC on some sets.
LEVEL = 0.005
BARS = {"ijcnn1": 0.995, "letter, half against half": 0.990, "magic": 0.926}


def network(X: Any, y: Any, device: str) -> Callable[[Any], Any]:
    """Fit the networks."""
    from pairlearn.torch import NeuralAUCClassifier

    return NeuralAUCClassifier(random_state=0, device=device).fit(X, y).decision_function


def boosted(X: Any, y: Any, device: str) -> Callable[[Any], Any]:
    """Fit LightGBM as it comes."""
    import lightgbm

    model = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1).fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1]


METHODS = {"networks": network, "LightGBM": boosted}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sets and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neural", description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(SETS), help="one of the sets")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="also write every result, one line each")
    options = parser.parse_args(arguments)
    if "PAIRLEARN_DATA" not in os.environ:
        parser.error("the sets are not here; name their folder by PAIRLEARN_DATA.")
    import torch
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    folder = Path(os.environ["PAIRLEARN_DATA"])
    warnings.simplefilter("ignore")
    print("| set | rows x features | networks | LightGBM | difference | CPU s | bar |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    level, missed = 0, []
    with threadpool_limits(1):
        for name in options.only or SETS:
            X, y = load(folder, *SETS[name])
            auc: dict[str, list[float]] = {method: [] for method in METHODS}
            cpu: dict[str, list[float]] = {method: [] for method in METHODS}
            for split in range(options.splits):
                parts = train_test_split(X, y, test_size=0.3, stratify=y, random_state=split)
                train, test, y_train, y_test = parts
                for method, fit in METHODS.items():
                    begin = time.process_time()
                    score = fit(train, y_train, options.device)
                    cpu[method].append(time.process_time() - begin)
                    auc[method].append(float(roc_auc_score(y_test, score(test))))
            ours, theirs = (np.array(auc[method]) for method in METHODS)
            gap = ours - theirs
            level += gap.mean() > -LEVEL
            bar = BARS.get(name)
            if bar is not None and ours.mean() < bar:
                missed.append(name)
            error = f" ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}" if len(gap) > 1 else ""
            seconds = " / ".join(f"{np.mean(cpu[method]):.1f}" for method in METHODS)
            print(
                f"| {name} | {X.shape[0]:,} x {X.shape[1]} | {ours.mean():.4f} | "
                f"{theirs.mean():.4f} | {gap.mean():+.4f}{error} | {seconds} | "
                f"{'' if bar is None else f'{bar:.3f}'} |",
                flush=True,
            )
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"set": name, "auc": auc, "cpu": cpu}) + "\n")
    print(f"\nwithin {LEVEL} of LightGBM, or better: {level} of {len(options.only or SETS)}")
    if missed:
        print(f"below their bar: {', '.join(missed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
