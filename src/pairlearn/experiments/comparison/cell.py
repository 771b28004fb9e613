# SPDX-License-Identifier: BSD-3-Clause
"""Compute one cell of a comparison; the same task gives the same numbers in any process.

Random numbers come from one `SeedSequence` child for each (data set, split, method), derived from
the names and not from the order. So neither workers nor other methods change them.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairlearn.data.dataset import Dataset
from pairlearn.data.splits import Split, prepare, random_split, repeated_folds
from pairlearn.experiments.comparison.curves import coefficients, curves_on
from pairlearn.experiments.comparison.store import Result
from pairlearn.experiments.methods.base import Method, auc_of, scores
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction

#: Linux tells the peak of resident memory here, and resets it there; see proc(5).
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _status_bytes(name: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


class Meter:
    """Measures the body of a `with` statement: seconds of this process, all threads, and memory.

    `peak_bytes` is the peak of resident memory minus that at the start; None if not reported.
    """

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int | None

    def __enter__(self) -> Meter:
        try:
            _CLEAR.write_text("5", encoding="ascii")
            self._before = _status_bytes("VmRSS")
        except OSError:
            self._before = None
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.cpu_seconds = time.process_time() - self._cpu
        self.wall_seconds = time.perf_counter() - self._wall
        peak = None if self._before is None else _status_bytes("VmHWM")
        self.peak_bytes = None if peak is None else max(0, peak - (self._before or 0))


@dataclass(frozen=True)
class Protocol:
    """How examples are split, scaled and used for tuning.

    Parameters
    ----------
    scaling : {"train", "paper", "none"}, default="train"
        See `pairlearn.data.prepare`.
    splits : {"random", "folds"}, default="random"
        Independent random splits, or repeated 5-fold cross-validation.
    tuning : {"train", "all"}, default="train"
        Whether parameters are chosen on the training part of each split, or once on all examples
        including test examples, as in the paper's published code.
    test_fraction : float, default=0.2
        The share of test examples in a random split.
    """

    scaling: str = "train"
    splits: str = "random"
    tuning: str = "train"
    test_fraction: float = 0.2

    def __post_init__(self) -> None:
        for name, allowed in (
            ("scaling", ("train", "paper", "none")),
            ("splits", ("random", "folds")),
            ("tuning", ("train", "all")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}."
                )
        check_fraction("test_fraction", self.test_fraction)


@dataclass(frozen=True)
class Task:
    """One cell, or (split -1) the choice of parameters that many cells share.

    `seed` is that of the whole comparison. Without `params`, they are chosen on this split.
    """

    data: Dataset
    method: Method
    protocol: Protocol
    seed: int
    split: int
    params: Mapping[str, Any] | None = None

    def identity(self) -> dict[str, Any]:
        """Return everything that determines the result, ready for JSON."""
        return {
            "dataset": self.data.name,
            "sha256": self.data.sha256,
            "method": self.method.settings(),
            "protocol": asdict(self.protocol),
            "seed": self.seed,
            "split": self.split,
        }

    @property
    def label(self) -> str:
        """The cell for a reader."""
        return f"{self.data.name} split {self.split} {self.method.name}"


@dataclass(frozen=True)
class Tuning:
    """Parameters that were chosen once for a data set."""

    params: dict[str, Any]
    cpu_seconds: float


def child_seed(seed: int, *names: str | int) -> np.random.SeedSequence:
    """Return the `SeedSequence` child of a seed for a sequence of names."""
    key = []
    for name in names:
        digest = hashlib.sha256(repr(name).encode()).digest()
        key += [int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")]
    return np.random.SeedSequence(seed, spawn_key=tuple(key))


def split_of(n: int, *, dataset: str, split: int, seed: int, protocol: Protocol) -> Split:
    """Return one split; all methods of a comparison share it."""
    if protocol.splits == "folds":
        rng = np.random.default_rng(child_seed(seed, "folds", dataset))
        return repeated_folds(n, split + 1, rng=rng)[split]
    rng = np.random.default_rng(child_seed(seed, "split", dataset, split))
    return random_split(n, test_fraction=protocol.test_fraction, rng=rng)


def _prepared(task: Task, split: int) -> tuple[Any, Vector, Any, Vector]:
    X, y, name = task.data.X, task.data.y, task.data.name
    part = split_of(len(y), dataset=name, split=split, seed=task.seed, protocol=task.protocol)
    X_train, X_test = prepare(X, part.train, part.test, scaling=task.protocol.scaling)
    return X_train, y[part.train], X_test, y[part.test]


_warmed: set[tuple[str, str]] = set()


def run_task(task: Task) -> Result | Tuning | str:
    """Compute one cell, or one shared choice, on a single thread; an error is returned as text."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    key = json.dumps(task.method.settings(), sort_keys=True, default=str), task.data.sha256
    try:
        with threadpool_limits(limits=1):
            if key not in _warmed:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    task.method.warm_up(int(task.data.X.shape[1]))
                _warmed.add(key)
            return _tune_once(task) if task.split < 0 else _fit(task)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _fit(task: Task) -> Result:
    """Tune if needed, fit and test one cell; return its scores, costs and warnings."""
    method = task.method
    X, y, X_test, y_test = _prepared(task, task.split)
    root = child_seed(task.seed, "method", task.data.name, task.split, method.name)
    tune_rng, fit_rng = (np.random.default_rng(child) for child in root.spawn(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tune_seconds = 0.0
        params = task.params
        if params is None:
            with Meter() as tuning:
                params = method.tune(*_at_most(method, X, y, tune_rng), tune_rng)
            tune_seconds = tuning.cpu_seconds
        with Meter() as training:
            fitted = method.fit(X, y, params, fit_rng)
        model = fitted.model
        values, probabilities = scores(model, X_test), None
        if hasattr(model, "predict_proba"):
            probabilities = model.predict_proba(X_test)[:, 1]
    return Result(
        dataset=task.data.name,
        split=task.split,
        method=method.name,
        auc=auc_of(model, X_test, y_test),
        cpu_seconds=training.cpu_seconds,
        wall_seconds=training.wall_seconds,
        tune_cpu_seconds=tune_seconds,
        n_train=len(y),
        n_test=len(y_test),
        n_gradients=fitted.n_gradients,
        peak_bytes=training.peak_bytes,
        state_bytes=fitted.state_bytes,
        params=dict(params),
        checkpoints=[
            [point.cpu_seconds, point.n_gradients, auc_of(point.model, X_test, y_test)]
            for point in fitted.waypoints
        ],
        warnings=sorted({" ".join(str(entry.message).split()) for entry in caught}),
        curves=curves_on(y_test, values, probabilities) | coefficients(model),
    )


def _tune_once(task: Task) -> Tuning:
    method = task.method
    rng = np.random.default_rng(child_seed(task.seed, "tune", task.data.name, method.name))
    if task.protocol.tuning == "all":
        X, y = task.data.X, task.data.y
        X, _ = prepare(X, np.arange(len(y)), np.arange(1), scaling=task.protocol.scaling)
    else:
        X, y, _, _ = _prepared(task, 0)
    with Meter() as meter:
        params = method.tune(*_at_most(method, X, y, rng), rng)
    return Tuning(dict(params), meter.cpu_seconds)


def _at_most(method: Method, X: Any, y: Vector, rng: np.random.Generator) -> tuple[Any, Vector]:
    limit = method.max_tuning_examples
    if limit is None or len(y) <= limit:
        return X, y
    chosen = np.sort(rng.choice(len(y), size=limit, replace=False))
    return X[chosen], y[chosen]
