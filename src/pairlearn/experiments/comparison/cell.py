# SPDX-License-Identifier: BSD-3-Clause
"""Compute one cell of a comparison; the same task gives the same numbers in any process.

Random numbers come from one `SeedSequence` child for each (data set, split, method), derived from
the names and not from the order. So neither workers nor other methods change them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairlearn.atomic import atomic_open
from pairlearn.data.preparation import prepare
from pairlearn.data.splits import Split, random_split, repeated_folds
from pairlearn.experiments.comparison.curve_points import coefficients, curves_on
from pairlearn.experiments.comparison.store import Result
from pairlearn.experiments.methods.base import Method, auc_of, scores
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def _status_bytes(field: str) -> int | None:
    try:
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return None


def _reset_peak() -> bool:
    try:
        # 5 resets the peak resident size, see proc(5).
        _CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


class Meter:
    """Measures the body of a `with` statement: seconds of this process, all threads, and memory.

    `peak_bytes` is the peak of resident memory minus that at the start; None if not reported.
    """

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int | None

    def __enter__(self) -> Meter:
        self._before = _status_bytes("VmRSS") if _reset_peak() else None
        self._wall = time.perf_counter()
        self._cpu = time.process_time()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.cpu_seconds = time.process_time() - self._cpu
        self.wall_seconds = time.perf_counter() - self._wall
        peak = _status_bytes("VmHWM") if self._before is not None else None
        self.peak_bytes = (
            None if peak is None or self._before is None else max(0, peak - self._before)
        )


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
class ArrayFiles:
    """A data set as files that every process maps instead of copying."""

    name: str
    sha256: str
    folder: str

    def _file(self, part: str) -> Path:
        return Path(self.folder) / f"{self.sha256[:16]}-{part}.npy"

    def write(self, X: Any, y: Vector) -> None:
        """Write the missing files; each file appears complete or not at all."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        if hasattr(X, "toarray"):
            csr = X.tocsr()
            parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
            parts["shape"] = np.array(csr.shape)
        else:
            parts = {"X": np.ascontiguousarray(X)}
        for part, array in {**parts, "y": np.asarray(y)}.items():
            path = self._file(part)
            if not path.exists():
                with atomic_open(path) as out:
                    np.save(out, array)

    def read(self) -> tuple[Any, Vector]:
        """Return (X, y); a dense X is mapped, not read."""
        y = np.load(self._file("y"))
        if self._file("X").exists():
            return np.load(self._file("X"), mmap_mode="r"), y
        from scipy import sparse

        arrays = tuple(np.load(self._file(part)) for part in ("data", "indices", "indptr"))
        return sparse.csr_matrix(arrays, shape=tuple(np.load(self._file("shape")))), y


@dataclass(frozen=True)
class Task:
    """One cell, or (split -1) the choice of parameters that many cells share.

    `seed` is that of the whole comparison. Without `params`, they are chosen on this split.
    """

    data: ArrayFiles
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


@dataclass(frozen=True)
class Tuning:
    """Parameters that were chosen once for a data set."""

    dataset: str
    method: str
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


@functools.lru_cache(maxsize=1)
def _prepared(
    data: ArrayFiles, split: int, seed: int, protocol: Protocol
) -> tuple[Any, Vector, Any, Vector]:
    X, y = data.read()
    part = split_of(len(y), dataset=data.name, split=split, seed=seed, protocol=protocol)
    X_train, X_test = prepare(X, part.train, part.test, scaling=protocol.scaling)
    return X_train, y[part.train], X_test, y[part.test]


_warmed: set[tuple[str, str]] = set()


def run_task(task: Task) -> Result | Tuning:
    """Compute one cell, or one shared choice of parameters, on a single thread."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    key = json.dumps(task.method.settings(), sort_keys=True, default=str), task.data.sha256
    with threadpool_limits(limits=1):
        if key not in _warmed:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                task.method.warm_up(int(task.data.read()[0].shape[1]))
            _warmed.add(key)
        return _tune_once(task) if task.split < 0 else _fit(task)


def _fit(task: Task) -> Result:
    """Tune if needed, fit and test one cell; return its scores, costs and warnings."""
    method = task.method
    X, y, X_test, y_test = _prepared(task.data, task.split, task.seed, task.protocol)
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
        auc = auc_of(fitted.model, X_test, y_test)
        curves = _curves(fitted.model, X_test, y_test)
    return Result(
        dataset=task.data.name,
        split=task.split,
        method=method.name,
        auc=auc,
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
        curves=curves,
    )


def _curves(model: Any, X: Any, y: Vector) -> dict[str, list[float]]:
    probabilities = model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else None
    found = curves_on(y, scores(model, X), probabilities)
    weights = coefficients(model)
    return {**found, "coefficients": weights} if weights else found


def _tune_once(task: Task) -> Tuning:
    method = task.method
    rng = np.random.default_rng(child_seed(task.seed, "tune", task.data.name, method.name))
    if task.protocol.tuning == "all":
        X, y = task.data.read()
        everything = np.arange(len(y))
        X, _ = prepare(X, everything, everything[:1], scaling=task.protocol.scaling)
    else:
        X, y, _, _ = _prepared(task.data, 0, task.seed, task.protocol)
    with Meter() as meter:
        params = method.tune(*_at_most(method, X, y, rng), rng)
    return Tuning(task.data.name, method.name, dict(params), meter.cpu_seconds)


def _at_most(method: Method, X: Any, y: Vector, rng: np.random.Generator) -> tuple[Any, Vector]:
    limit = method.max_tuning_examples
    if limit is None or len(y) <= limit:
        return X, y
    chosen = np.sort(rng.choice(len(y), size=limit, replace=False))
    return X[chosen], y[chosen]


def start_worker() -> None:
    """Leave Ctrl-C to the parent process, and exit when the parent is gone, even if killed."""
    import signal
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
