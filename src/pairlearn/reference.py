# SPDX-License-Identifier: BSD-3-Clause
"""The paper's algorithms in plain NumPy: the specification, and the oracle of the tests.

Nothing here is fast. Every iterate is stored, projections and averages are written as in the paper,
and no kernel is involved. Indices are given, never drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pairlearn.losses import PairLoss
from pairlearn.typing import Mask, Vector

__all__ = [
    "average_of",
    "clipped_pair_sum",
    "localized_sgd",
    "mahalanobis_sgd",
    "online_sgd",
    "p_norm_push",
    "pair_gradient",
    "pairwise_sgd",
    "partial_area",
    "soft_average_precision",
    "top_of_list_sgd",
]


def pair_gradient(
    loss: PairLoss, w: Vector, x: Vector, y: float, x_partner: Vector, y_partner: float
) -> Vector:
    """Return the gradient of f(w; z, z') for the linear score <w, x - x'>."""
    if loss.opposite_labels_only and y == y_partner:
        return np.zeros_like(w)
    if loss.one_sided and not y > y_partner:
        return np.zeros_like(w)
    difference = x - x_partner
    slope = loss.derivative(float(w @ difference), y, y_partner, loss.parameter)
    return slope * difference


def pairwise_sgd(
    loss: PairLoss,
    X: Any,
    y: Vector,
    *,
    partners: Sequence[tuple[int, Sequence[int]]],
    step_sizes: Vector,
    project: Callable[[Vector], Vector] | None = None,
    proximal: Callable[[Vector, float], Vector] | None = None,
    w_start: Vector,
    example_weight: Vector | None = None,
) -> list[Vector]:
    """Return every iterate w_0, ..., w_T of Algorithm 1 for given pairs.

    Parameters
    ----------
    loss : PairLoss
        The pair loss.
    X : ndarray of shape (n, d)
        Examples.
    y : ndarray of shape (n,)
        Labels.
    partners : sequence of (int, sequence of int)
        For each step the current example i_t and its partners. Algorithm 1 has one partner,
        i_{t-1}; with several the gradient is their mean (the remark after Theorem 6).
    step_sizes : ndarray of shape (T,)
        The step sizes eta_1, ..., eta_T.
    project : callable, optional
        The projection onto W.
    proximal : callable, optional
        A proximal step of (w, eta_t) that replaces the projection at every step. Give one of both.
    w_start : ndarray of shape (d,)
        The starting point; w_0 is its projection onto W.
    example_weight : ndarray of shape (n,), optional
        The weight of a pair is the product of the weights of its examples.

    Returns
    -------
    list of ndarray
        The T + 1 iterates.
    """
    if (project is None) == (proximal is None):
        raise ValueError("Give one of project and proximal.")
    weight = np.ones(len(y)) if example_weight is None else example_weight
    start = np.array(w_start, dtype=np.float64)
    iterates = [start if project is None else project(start)]
    for step_size, (current, others) in zip(step_sizes, partners, strict=True):
        w = iterates[-1]
        gradient = np.zeros_like(w)
        for other in others:
            pair_weight = weight[current] * weight[other] / len(others)
            gradient = gradient + pair_weight * pair_gradient(
                loss, w, X[current], y[current], X[other], y[other]
            )
        moved = w - step_size * gradient
        iterates.append(project(moved) if project else proximal(moved, step_size))  # type: ignore[misc]
    return iterates


def online_sgd(loss: PairLoss, X: Any, y: Vector, **settings: Any) -> list[Vector]:
    """Return every iterate of Algorithm 2: example t meets example t - 1, in order of arrival.

    The settings are those of `pairwise_sgd` without `partners`.
    """
    partners = [(t, [t - 1]) for t in range(1, len(y))]
    return pairwise_sgd(loss, X, y, partners=partners, **settings)


def localized_sgd(
    loss: PairLoss,
    X: Any,
    y: Vector,
    *,
    stages: Sequence[tuple[Sequence[tuple[int, int]], float, int]],
    project: Callable[[Vector], Vector],
    w_start: Vector,
) -> list[Vector]:
    """Return the result of each stage of Algorithm 4 for given pairs, beginning at `w_start`.

    A stage is (pairs, zeta_k, n_k): its pairs (i_j, i_{j-1}), its locality and its number of
    examples. The objective is f(w; z, z') + ||w - c||^2 / (zeta_k n_k), the steps are
    zeta_k n_k / (j + 1), and the result is the projected average sum_j j w_{j-2} / sum_j j.
    """
    results, centre = [], project(np.asarray(w_start, dtype=np.float64))
    for pairs, locality, size in stages:
        iterates = [centre]
        for j, (current, other) in enumerate(pairs, start=1):
            w = iterates[-1]
            gradient = pair_gradient(loss, w, X[current], y[current], X[other], y[other])
            gradient = gradient + 2.0 / (locality * size) * (w - centre)
            iterates.append(project(w - locality * size / (j + 1) * gradient))
        centre = project(average_of(iterates, np.ones(len(pairs)), "linear"))
        results.append(centre)
    return results


def mahalanobis_sgd(
    loss: PairLoss,
    X: Any,
    y: Vector,
    *,
    pairs: Sequence[tuple[int, int]],
    step_sizes: Vector,
    start: Vector,
    parameterization: str = "full",
    radius: float = np.inf,
    period: int = 1,
    example_weight: Vector | None = None,
) -> list[Vector]:
    """Return every iterate of Algorithm 1 for the score (x - x')' W (x - x').

    The loss is one of the squared distance, and a step has one pair. `start` is W_0 of shape
    (d, d), its diagonal (d,) or a factor L_0 of shape (d, rank), as the `parameterization` "full",
    "diagonal" or "low_rank" says. `radius` bounds the Frobenius norm of W (for a factor L, the
    square of its norm). At steps divisible by `period`, W is projected onto the PSD cone by a full
    eigendecomposition. The ball follows the cone; with a period above 1 the ball comes first, at
    every step.
    """
    weight = np.ones(len(y)) if example_weight is None else example_weight
    bound = np.sqrt(radius) if parameterization == "low_rank" else radius
    iterates = [np.array(start, dtype=np.float64)]
    for t, (step_size, (i, j)) in enumerate(zip(step_sizes, pairs, strict=True), start=1):
        W = iterates[-1]
        v = X[i] - X[j]
        if parameterization == "full":
            score, direction = v @ W @ v, np.outer(v, v)
        elif parameterization == "diagonal":
            score, direction = W @ v**2, v**2
        else:
            score, direction = float(np.sum((v @ W) ** 2)), 2.0 * np.outer(v, v @ W)
        skip = (loss.opposite_labels_only and y[i] == y[j]) or (loss.one_sided and not y[i] > y[j])
        slope = 0.0 if skip else loss.derivative(float(score), y[i], y[j], loss.parameter)
        W = W - step_size * weight[i] * weight[j] * slope * direction
        if parameterization == "diagonal":
            W = np.maximum(W, 0.0)
        if parameterization == "full" and t % period == 0:
            if period > 1:
                W = W * min(1.0, bound / np.linalg.norm(W))
            values, vectors = np.linalg.eigh(W)
            W = (vectors * np.maximum(values, 0.0)) @ vectors.T
        norm = np.linalg.norm(W)
        iterates.append(W if norm <= bound else W * (bound / norm))
    return iterates


def clipped_pair_sum(
    loss: PairLoss,
    X: Any,
    y: Vector,
    *,
    cells: Sequence[Sequence[int]],
    w: Vector,
    clip: float,
    different_weight: float = 1.0,
) -> Vector:
    """Return the sum of clipped pair gradients that private SGD releases with noise (lemma 22).

    All rows of a cell meet once. For a vector `w` the score is <w, x - x'>, for a matrix the
    squared distance (x - x')' W (x - x'). A pair with a NaN label counts nothing, and one of
    different labels has the weight `different_weight`.
    """
    total = np.zeros_like(w)
    for cell in cells:
        for place, first in enumerate(cell):
            for second in cell[:place]:
                i, j = (first, second) if y[first] >= y[second] else (second, first)
                if np.isnan(y[i]) or np.isnan(y[j]) or (loss.opposite_labels_only and y[i] == y[j]):
                    continue
                v = X[i] - X[j]
                score, direction = (w @ v, v) if w.ndim == 1 else (v @ w @ v, np.outer(v, v))
                slope = loss.derivative(float(score), y[i], y[j], loss.parameter)
                gradient = (different_weight if y[i] > y[j] else 1.0) * slope * direction
                total += gradient * min(1.0, clip / max(float(np.linalg.norm(gradient)), 1e-300))
    return total


def average_of(iterates: Sequence[Vector], step_sizes: Vector, rule: str = "step_size") -> Vector:
    """Return the average of the iterates w_0, ..., w_T under a rule of `pairlearn.averaging`.

    The rules are "step_size" (sum_j eta_j w_{j-2} with w_{-1} = w_0), "linear" (sum_j j w_{j-2}),
    "buffer:S" (sum_j eta_j w_{j-S-1}), "undelayed" (sum_j eta_j w_{j-1}), "uniform" (w_1, ...,
    w_T), "tail:F" (w_t for t > floor((1 - F) T)) and "last" (w_T).
    """
    n_steps = len(step_sizes)
    if n_steps == 0 or rule == "last":
        return iterates[-1]
    if rule in ("step_size", "linear", "undelayed") or rule.startswith("buffer:"):
        weights = np.arange(1.0, n_steps + 1.0) if rule == "linear" else step_sizes
        delay = {"step_size": 2, "linear": 2, "undelayed": 1}.get(rule)
        if delay is None:
            delay = int(rule.removeprefix("buffer:")) + 1
        delayed = [iterates[max(j - delay, 0)] for j in range(1, n_steps + 1)]
        return np.asarray(np.average(delayed, axis=0, weights=weights))
    if rule == "uniform":
        return np.asarray(np.mean(iterates[1:], axis=0))
    fraction = float(rule.removeprefix("tail:"))
    first = int(np.floor((1.0 - fraction) * n_steps)) + 1
    return np.asarray(np.mean(iterates[first:], axis=0))


def p_norm_push(loss: PairLoss, scores: Vector, positive: Mask, power: float) -> float:
    """Return the p-norm, over negatives, of their mean loss against the positives (Rudin 2009)."""
    costs = _pair_losses(loss, scores, positive).mean(axis=0)
    return float(np.mean(costs**power) ** (1.0 / power))


def partial_area(
    loss: PairLoss, scores: Vector, positive: Mask, *, n_positive: int, n_negative: int
) -> float:
    """Return the mean loss over pairs of the lowest positives and the highest negatives.

    It is the two-way partial AUC surrogate without smoothing. With all positives, it is that of the
    partial AUC for false positive rates up to n_negative / n-.
    """
    losses = _pair_losses(loss, scores, positive)
    lowest = np.argsort(scores[positive])[:n_positive]
    highest = np.argsort(-scores[~positive])[:n_negative]
    return float(losses[np.ix_(lowest, highest)].mean())


def soft_average_precision(scores: Vector, positive: Mask) -> float:
    """Return the average precision with steps that rise over [-1, 1] (Brown et al. 2020)."""
    total = 0.0
    for i in np.flatnonzero(positive):
        gap = np.clip(scores - scores[i], -1.0, 1.0)
        step = np.where(gap < 0.0, 0.5 * (gap + 1.0) ** 2, 1.0 - 0.5 * (1.0 - gap) ** 2)
        # an example counts fully at its own place
        step[i] = 1.0
        total += step[positive].sum() / step.sum()
    return float(total / np.count_nonzero(positive))


def top_of_list_sgd(
    slopes: Callable[[Vector, Mask], Vector],
    X: Vector,
    positive: Mask,
    *,
    batch_size: int,
    memory: int,
    draws: Callable[[int], Vector],
    step_size: float,
    radius: float = np.inf,
) -> list[Vector]:
    """Return the average after each batch of gradient descent on a convex objective of all scores.

    `slopes` gives the derivatives of the objective by score, from scores and labels. A step takes
    `batch_size` examples (an incomplete last batch is left out) and the `memory` stored examples of
    each class. `draws` gives random numbers in [0, 1) for the examples of batch 1, 2, ..., which
    decide what is stored. The averages are in the units of X.
    """
    d = X.shape[1]
    v, average, squares = np.zeros(d), np.zeros(d), 0.0
    kept: dict[bool, list[int]] = {False: [], True: []}
    seen = {False: 0, True: 0}
    averages = []
    for t in range(1, len(X) // batch_size + 1):
        batch = list(range((t - 1) * batch_size, t * batch_size))
        so_far = X[: t * batch_size]
        scale = np.maximum(so_far.std(axis=0), 0.1 * np.ptp(so_far, axis=0)) * np.sqrt(d)
        rows = np.array(batch + kept[False] + kept[True])
        Z = (X[rows] - so_far.mean(axis=0)) / scale
        gradient = Z.T @ slopes(Z @ v, positive[rows])
        squares += float(gradient @ gradient)
        v = v - step_size / np.sqrt(squares) * gradient
        v = v * min(1.0, radius / np.linalg.norm(v))
        average = average + min(4.0 / (t + 3.0), 1.0) * (v / scale - average)
        averages.append(average)
        for row, draw in zip(batch, draws(t), strict=True):
            label = bool(positive[row])
            seen[label] += 1
            if len(kept[label]) < memory:
                kept[label].append(row)
            elif int(draw * seen[label]) < memory:
                kept[label][int(draw * seen[label])] = row
    return averages


def _pair_losses(loss: PairLoss, scores: Vector, positive: Mask) -> Vector:
    """Return the loss of every positive (rows) against every negative (columns)."""
    return np.array(
        [
            [loss.value(float(p - q), 1.0, -1.0, loss.parameter) for q in scores[~positive]]
            for p in scores[positive]
        ]
    )
