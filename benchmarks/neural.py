# SPDX-License-Identifier: BSD-3-Clause
"""Small networks against LightGBM: ``python -m benchmarks.neural [--splits 5] [--jobs 16]``.

The fourteen sets and the splits of `benchmarks.beyond` (PAIRLEARN_DATA names their folder; 70 % /
30 %, stratified). Ours is ``NeuralAUCClassifier(random_state=0)``, untuned, on one thread of the
CPU unless ``--device`` says otherwise. The rival is LightGBM (``pip install lightgbm``), untuned
too, one thread. Printed are means over splits of test AUC, with the standard error of the
difference, and CPU seconds of `fit`.

Each fit is a run of its own, ``--jobs`` of them at a time. ``--json`` keeps them, one line each,
and does not run again what the file has. So both methods need not run on one machine: let each
write a file (``--method networks``, ``--method LightGBM``), put the files together, and
``--json`` of that file prints the table. Networks need PyTorch, scikit-learn, SciPy and NumPy.
``--pieces 0`` leaves out what the first layers see beside the features, ``--no-line`` the linear
scores beside networks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.beyond import SETS, load

#: A difference of AUC that counts as level, and the least AUC on some sets.
LEVEL = 0.005
BARS = {"ijcnn1": 0.995, "letter, half against half": 0.990, "magic": 0.926}
#: The sets whose networks take longest, so that they do not come last.
LONGEST = ("usps, half against half", "phoneme", "letter H", "ijcnn1", "letter, half against half")


def network(X: Any, y: Any, device: str, shape: dict[str, Any]) -> Callable[[Any], Any]:
    """Fit the networks."""
    import torch

    from pairlearn.torch import MLP, NeuralAUCClassifier

    torch.set_num_threads(1)
    model = NeuralAUCClassifier(network=MLP(**shape), random_state=0, device=device)
    return model.fit(X, y).decision_function


def boosted(X: Any, y: Any, device: str, shape: dict[str, Any]) -> Callable[[Any], Any]:
    """Fit LightGBM as it comes."""
    import lightgbm

    model = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1).fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1]


METHODS = {"networks": network, "LightGBM": boosted}


class Run(NamedTuple):
    """One method on one split of one set."""

    set: str
    split: int
    method: str


@lru_cache(maxsize=1)
def _examples(folder: Path, name: str) -> tuple[Any, Any]:
    return load(folder, *SETS[name])


def result_of(run: Run, folder: Path, device: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Fit a method on one split, and return its test AUC with what tells the run apart."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")
    X, y = _examples(folder, run.set)
    parts = train_test_split(X, y, test_size=0.3, stratify=y, random_state=run.split)
    train, test, y_train, y_test = parts
    with threadpool_limits(1):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        score = METHODS[run.method](train, y_train, device, shape)
        cpu, seconds = time.process_time() - begin_cpu, time.perf_counter() - begin
        auc = float(roc_auc_score(y_test, score(test)))
    return {
        **run._asdict(),
        "auc": auc,
        "cpu": cpu,
        "seconds": seconds,
        "device": device if run.method == "networks" else "cpu",
        "shape": X.shape,
        # Two machines that split differently must not be compared.
        "test": zlib.crc32(np.ascontiguousarray(test)),
    }


def results_of(
    runs: Sequence[Run], folder: Path, device: str, shape: dict[str, Any], jobs: int
) -> Iterator[dict[str, Any]]:
    """Yield the results as they come, from so many processes of one thread each."""
    if jobs == 1:
        yield from (result_of(run, folder, device, shape) for run in runs)
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    # CUDA does not survive a fork.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh) as pool:
        waiting = [pool.submit(result_of, run, folder, device, shape) for run in runs]
        for done in as_completed(waiting):
            yield done.result()


def table(names: Sequence[str], n_splits: int, found: dict[Run, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| set | rows x features | networks | LightGBM | difference | CPU s | bar |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    level, missed, complete = 0, [], 0
    for name in names:
        both = [[Run(name, split, method) for split in range(n_splits)] for method in METHODS]
        if not all(run in found for runs in both for run in runs):
            continue
        complete += 1
        for a, b in zip(*both, strict=True):
            if found[a]["test"] != found[b]["test"]:
                raise SystemExit(f"split {a.split} of {name} is not the same for both methods.")
        ours, theirs = (np.array([found[run]["auc"] for run in runs]) for runs in both)
        gap = ours - theirs
        level += gap.mean() > -LEVEL
        bar = BARS.get(name)
        if bar is not None and ours.mean() < bar:
            missed.append(name)
        error = f" ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}" if len(gap) > 1 else ""
        seconds = " / ".join(f"{np.mean([found[run]['cpu'] for run in runs]):.1f}" for runs in both)
        n, d = found[both[0][0]]["shape"]
        yield (
            f"| {name} | {n:,} x {d} | {ours.mean():.4f} | {theirs.mean():.4f} | "
            f"{gap.mean():+.4f}{error} | {seconds} | {'' if bar is None else f'{bar:.3f}'} |"
        )
    yield f"\n{n_splits} splits; within {LEVEL} of LightGBM, or better: {level} of {complete}"
    if missed:
        yield f"below their bar: {', '.join(missed)}"
    if complete < len(names):
        yield f"not run by both methods yet: {len(names) - complete} of {len(names)} sets"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sets and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neural", description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(SETS), help="one of the sets")
    parser.add_argument("--method", action="append", choices=list(METHODS), help="one of the two")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--device", default="cpu", help="of the networks")
    parser.add_argument("--pieces", type=int, help="of the networks, see MLP")
    parser.add_argument("--no-line", action="store_true", help="beside the networks, see MLP")
    parser.add_argument("--json", type=Path, help="results so far; new ones are added")
    options = parser.parse_args(arguments)
    names = options.only or list(SETS)
    found: dict[Run, dict[str, Any]] = {}
    if options.json and options.json.exists():
        for line in options.json.read_text().splitlines():
            result = json.loads(line)
            found[Run(*(result[field] for field in Run._fields))] = result
    runs = [
        run
        for name in sorted(names, key=lambda name: name not in LONGEST)
        for method in options.method or METHODS
        for split in range(options.splits)
        if (run := Run(name, split, method)) not in found
    ]
    if runs and "PAIRLEARN_DATA" not in os.environ:
        parser.error("the sets are not here; name their folder by PAIRLEARN_DATA.")
    folder = Path(os.environ.get("PAIRLEARN_DATA", ""))
    pieces = "auto" if options.pieces is None else options.pieces
    shape = {"pieces": pieces, "line": not options.no_line}
    for result in results_of(runs, folder, options.device, shape, options.jobs):
        run = Run(*(result[field] for field in Run._fields))
        found[run] = result
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(result) + "\n")
        print(
            f"{len(found)}: {run.method} on {run.set}, split {run.split}: {result['auc']:.4f} in "
            f"{result['seconds']:.1f} s",
            file=sys.stderr,
            flush=True,
        )
    print("\n".join(table(names, options.splits, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
