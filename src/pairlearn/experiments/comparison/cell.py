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
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pairlearn.data import Dataset
from pairlearn.data.splits import Split, prepare, random_split, repeated_folds
from pairlearn.experiments.methods.base import Method, auc_of
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction

_CHOICES = {
    "scaling": ("train", "paper", "none"),
    "splits": ("random", "folds"),
    "tuning": ("train", "all"),
}


@dataclass(frozen=True)
class Protocol:
    """How examples are split, scaled and used for tuning.

    Parameters
    ----------
    scaling : {"train", "paper", "none"}, default="train"
        Features are scaled to [-1, 1] by the training part, by all examples, or not.
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
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")
        check_fraction("test_fraction", self.test_fraction)


@dataclass(frozen=True)
class Result:
    """One cell of a comparison.

    Seconds are for training alone; `tune_cpu_seconds` is 0 if parameters were chosen once for all
    splits. The method reports `n_gradients` and `state_bytes`. A checkpoint is [cpu_seconds,
    n_gradients, test AUC].
    """

    dataset: str
    split: int
    method: str
    auc: float
    cpu_seconds: float
    tune_cpu_seconds: float
    n_train: int
    n_test: int
    n_gradients: int | None = None
    state_bytes: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    checkpoints: list[list[float]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Tuning:
    """Parameters that were chosen once for a data set."""

    params: dict[str, Any]
    cpu_seconds: float


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


def child_seed(seed: int, *names: str | int) -> np.random.SeedSequence:
    """Return the `SeedSequence` child of a seed for a sequence of names."""
    digests = (hashlib.sha256(repr(name).encode()).digest() for name in names)
    key = [int.from_bytes(d[k : k + 4], "little") for d in digests for k in (0, 4)]
    return np.random.SeedSequence(seed, spawn_key=tuple(key))


def split_of(n: int, *, dataset: str, split: int, seed: int, protocol: Protocol) -> Split:
    """Return one split; all methods of a comparison share it."""
    if protocol.splits == "folds":
        rng = np.random.default_rng(child_seed(seed, "folds", dataset))
        return repeated_folds(n, split + 1, rng=rng)[split]
    rng = np.random.default_rng(child_seed(seed, "split", dataset, split))
    return random_split(n, test_fraction=protocol.test_fraction, rng=rng)


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
    method = task.method
    X, y, X_test, y_test = _prepared(task, task.split)
    root = child_seed(task.seed, "method", task.data.name, task.split, method.name)
    tune_rng, fit_rng = (np.random.default_rng(child) for child in root.spawn(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        params, begin = task.params, time.process_time()
        if params is None:
            params = method.tune(*_at_most(method, X, y, tune_rng), tune_rng)
        tuned = time.process_time()
        fitted = method.fit(X, y, params, fit_rng)
        ended = time.process_time()
        auc = auc_of(fitted.model, X_test, y_test)
    return Result(
        dataset=task.data.name,
        split=task.split,
        method=method.name,
        auc=auc,
        cpu_seconds=ended - tuned,
        tune_cpu_seconds=tuned - begin if task.params is None else 0.0,
        n_train=len(y),
        n_test=len(y_test),
        n_gradients=fitted.n_gradients,
        state_bytes=fitted.state_bytes,
        params=dict(params),
        checkpoints=[
            [point.cpu_seconds, point.n_gradients, auc_of(point.model, X_test, y_test)]
            for point in fitted.waypoints
        ],
        warnings=sorted({" ".join(str(entry.message).split()) for entry in caught}),
    )


def _tune_once(task: Task) -> Tuning:
    method = task.method
    rng = np.random.default_rng(child_seed(task.seed, "tune", task.data.name, method.name))
    if task.protocol.tuning == "all":
        X, y = task.data.X, task.data.y
        X, _ = prepare(X, np.arange(len(y)), np.arange(1), scaling=task.protocol.scaling)
    else:
        X, y, _, _ = _prepared(task, 0)
    begin = time.process_time()
    params = method.tune(*_at_most(method, X, y, rng), rng)
    return Tuning(dict(params), time.process_time() - begin)


def _prepared(task: Task, split: int) -> tuple[Any, Vector, Any, Vector]:
    X, y, name = task.data.X, task.data.y, task.data.name
    part = split_of(len(y), dataset=name, split=split, seed=task.seed, protocol=task.protocol)
    X_train, X_test = prepare(X, part.train, part.test, scaling=task.protocol.scaling)
    return X_train, y[part.train], X_test, y[part.test]


def _at_most(method: Method, X: Any, y: Vector, rng: np.random.Generator) -> tuple[Any, Vector]:
    limit = method.max_tuning_examples
    if limit is None or len(y) <= limit:
        return X, y
    chosen = np.sort(rng.choice(len(y), size=limit, replace=False))
    return X[chosen], y[chosen]
