# SPDX-License-Identifier: BSD-3-Clause
"""Loops in the manner of the code released with the paper: one NumPy step at a time.

Own transcriptions, with their buffers and updates, kept to measure against.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["oam_loop", "olp_loop", "previous_loop"]

Array = NDArray[np.float64]


def previous_loop(
    X: Array, y: Array, *, n_steps: int, step_size: float, radius: float, seed: int = 0
) -> Array:
    """Run Algorithm 1 with the hinge loss and a running average."""
    rng = np.random.default_rng(seed)
    path = rng.integers(len(X), size=n_steps + 1)
    w, average = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for t in range(1, n_steps + 1):
        current, previous = path[t], path[t - 1]
        if y[current] * y[previous] < 0:
            difference = y[current] * (X[current] - X[previous])
            if 1 - np.inner(w, difference) > 0:
                w = w + step_size * difference
            norm = np.linalg.norm(w)
            if norm > radius:
                w = w * radius / norm
        average = average + (w - average) / t
    return average


def olp_loop(
    X: Array, y: Array, *, n_steps: int, size: int, step_size: float, radius: float, seed: int = 0
) -> Array:
    """Run OLP: a reservoir with replacement, updated before the step."""
    rng = np.random.default_rng(seed)
    path = rng.integers(len(X), size=n_steps)
    d = X.shape[1]
    w, average = np.zeros(d), np.zeros(d)
    rows, labels = np.zeros((size, d)), np.zeros(size)
    for t in range(n_steps):
        x_t, y_t = X[path[t]], y[path[t]]
        if t < size:
            rows[t], labels[t] = x_t, y_t
        elif t == size:
            drawn = rng.integers(size, size=size)
            rows, labels = rows[drawn], labels[drawn]
        else:
            count = rng.binomial(size, 1 / t)
            if count:
                taken = rng.integers(size, size=count)
                rows[taken], labels[taken] = x_t, y_t
        n_used = min(t + 1, size)
        opposite = labels[:n_used] * y_t < 0
        differences = y_t * (x_t - rows[:n_used][opposite])
        violated = differences @ w <= 1
        gradient = -differences[violated].sum(axis=0) / n_used
        w = w - step_size / np.sqrt(t + 1) * gradient
        norm = np.linalg.norm(w)
        if norm > radius:
            w = w * radius / norm
        average = average + (w - average) / (t + 1)
    return average


def oam_loop(
    X: Array, y: Array, *, n_steps: int, size: int, step_size: float, seed: int = 0
) -> Array:
    """Run OAM_gra: a reservoir for each class, filled with zeros at the start."""
    rng = np.random.default_rng(seed)
    path = rng.integers(len(X), size=n_steps)
    d = X.shape[1]
    w, average = np.zeros(d), np.zeros(d)
    buffers = {1.0: np.zeros((size, d)), -1.0: np.zeros((size, d))}
    seen = {1.0: 0, -1.0: 0}
    for t in range(n_steps):
        x_t, y_t = X[path[t]], y[path[t]]
        seen[y_t] += 1
        if seen[y_t] <= size:
            buffers[y_t][seen[y_t] - 1] = x_t
        elif rng.random() < size / seen[y_t]:
            buffers[y_t][rng.integers(size)] = x_t
        weight = step_size * max(1.0, seen[-y_t] / size)
        differences = y_t * (x_t - buffers[-y_t])
        violated = differences @ w <= 1
        w = w + weight * differences[violated].sum(axis=0)
        average = average + (w - average) / (t + 1)
    return average
