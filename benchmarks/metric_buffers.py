# SPDX-License-Identifier: BSD-3-Clause
"""What buffers and Algorithm 4 bring for metrics: ``python -m benchmarks.metric_buffers``.

A Mahalanobis matrix is learned with the distance hinge, projected onto the PSD cone at every step,
by Algorithm 1 with a FIFO buffer of s examples (s = 1 is the previous example) and by Algorithm 4.
All have the same number of gradients, or with ``--equal steps`` of steps. Each takes its best step
size (or locality) of a grid by the risk on training pairs, so that none suffers from a bad choice.
Printed is the hinge risk on pairs of test examples, mean and standard deviation over splits, and
the microseconds per gradient of the plain NumPy loop. It decides what deserves a kernel.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pairlearn.domains import PsdCone
from pairlearn.losses import DistanceHinge
from pairlearn.solvers.descent.localized import localized_stages

GRID = 10.0 ** np.arange(-3.5, 1.0, 0.5)
LOSS = DistanceHinge()
Loop = Callable[[Any, Any, int, float, np.random.Generator], np.ndarray]


def buffered(size: int) -> Loop:
    """Return Algorithm 1 with a buffer, and the average of w_{j-s-1}."""

    def run(X: Any, y: Any, n_gradients: int, scale: float, rng: np.random.Generator) -> np.ndarray:
        n_steps, d = n_gradients // size, X.shape[1]
        path = rng.integers(len(y), size=n_steps + size)
        W, total, past = np.zeros((d, d)), np.zeros((d, d)), [np.zeros((d, d))] * size
        unit = scale / np.sqrt(n_steps)
        for t in range(n_steps):
            now, others = path[t + size], path[t : t + size]
            total += past[0]
            past = [*past[1:], W]
            W = _step(W, X, y, now, others, unit)
        return total / n_steps

    return run


def localized(
    X: Any, y: Any, n_gradients: int, scale: float, rng: np.random.Generator
) -> np.ndarray:
    """Run Algorithm 4 on disjoint stages."""
    order, d = rng.permutation(len(y)), X.shape[1]
    centre = np.zeros((d, d))
    passes = n_gradients / len(y)
    for stage in localized_stages(len(y), locality=scale / np.sqrt(len(y)), n_passes=passes):
        members, order = order[: stage.n_examples], order[stage.n_examples :]
        path = members[rng.integers(len(members), size=stage.n_steps + 1)]
        alpha, W, total = stage.strong_convexity, centre, np.zeros((d, d))
        before = W
        for j in range(1, stage.n_steps + 1):
            total += j * before
            before, eta = W, 2.0 / (alpha * (j + 1))
            pulled = W - eta * alpha * (W - centre)
            W = _step(pulled, X, y, path[j], path[j - 1 : j], eta, at=before)
        centre = PsdCone().project(total / (stage.n_steps * (stage.n_steps + 1) / 2))
    return centre


def _step(W: Any, X: Any, y: Any, now: int, others: Any, eta: float, at: Any = None) -> Any:
    """Return the projected step with the mean gradient over a buffer."""
    V = X[now] - X[others]
    scores = np.einsum("nd,de,ne->n", V, W if at is None else at, V)
    labels = np.full(len(others), y[now])
    slopes = LOSS.derivative.many(scores, labels, y[others], LOSS.parameter)
    if not slopes.any():
        return W
    return PsdCone().project(W - eta * (V.T * (slopes / len(others))) @ V)


def risk(W: Any, X: Any, y: Any, n_pairs: int = 4000) -> float:
    """Return the mean loss over random pairs."""
    i, j = np.random.default_rng(1).integers(len(y), size=(2, n_pairs))
    V = X[i] - X[j]
    scores = np.einsum("nd,de,ne->n", V, W, V)
    return float(LOSS.value.many(scores, y[i], y[j], LOSS.parameter)[i != j].mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--passes", type=float, default=2.0, help="gradients in units of n")
    parser.add_argument("--equal", choices=("gradients", "steps"), default="gradients")
    given = parser.parse_args(arguments)
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    loops: dict[str, tuple[Loop, int]] = {
        "previous example": (buffered(1), 1),
        "buffer of 4": (buffered(4), 4),
        "buffer of 16": (buffered(16), 16),
        "Algorithm 4": (localized, 1),
    }
    for load in (load_wine, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
        X = X @ np.linalg.svd(X, full_matrices=False)[2][:10].T / np.sqrt(X.shape[1])
        y = y.astype(np.float64)
        title = f"{load.__name__[5:]}: {len(y)} examples, 10 components"
        print(f"{title}, {given.passes:g} n {given.equal}")
        for name, (loop, size) in loops.items():
            risks, seconds, n_gradients = [], 0.0, 0
            for split in range(given.splits):
                rng = np.random.default_rng(split)
                order = rng.permutation(len(y))
                train, test = order[: len(y) * 4 // 5], order[len(y) * 4 // 5 :]
                count = int(given.passes * len(train)) * (size if given.equal == "steps" else 1)
                begin = time.process_time()
                found = [loop(X[train], y[train], count, s, np.random.default_rng(7)) for s in GRID]
                seconds += time.process_time() - begin
                n_gradients += count * len(GRID)
                best = min(found, key=lambda W: risk(W, X[train], y[train]))
                risks.append(risk(best, X[test], y[test]))
            each = 1e6 * seconds / n_gradients
            print(
                f"  {name:<18} risk {np.mean(risks):.3f} +- {np.std(risks):.3f}"
                f"   {each:.0f} us a gradient"
            )


if __name__ == "__main__":
    main()
