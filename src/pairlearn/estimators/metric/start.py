# SPDX-License-Identifier: BSD-3-Clause
"""Where metric learning starts and in which unit its steps are."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.losses import PairLoss
from pairlearn.pairings import Pairing, Plan
from pairlearn.pairings.sound import sound_source
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.rows import NO_WEIGHTS
from pairlearn.typing import Vector

#: Pairs that distances are averaged over.
_PAIRS = 1000
#: The ridge of the closed form, in units of the mean variance inside classes.
_RIDGE = 0.3
#: The smallest eigenvalue of the closed form, in units of the largest.
_FLOOR = 0.1


#: Differences x - x' of some pairs, and weights of the pairs that add up to 1.
Differences = tuple[Vector, Vector]


def sample_differences(
    X: Vector, pairing: Pairing, rng: np.random.Generator, weight: Vector = NO_WEIGHTS
) -> Differences:
    """Return the differences x - x' of 1000 pairs, but for those that are zero.

    A pair weighs the product of the weights of its two rows; `weight` may be empty.
    """
    plan = sound_source(pairing, len(X), rng).draw(_PAIRS)
    if not isinstance(plan, Plan):
        raise ValueError(
            f"A metric is learned from one pair at a step, not from a buffer; got {pairing!r}, use "
            "PreviousExample() or RandomPair()."
        )
    v = X[plan.left] - X[plan.right]
    some = (v != 0).any(axis=1)
    weights = weight[plan.left] * weight[plan.right] if len(weight) else np.ones(len(v))
    total = float(weights[some].sum())
    return v[some], weights[some] / (total if total > 0.0 else 1.0)


def _target(loss: PairLoss) -> float:
    """Return the mean squared distance to start from."""
    return max(float(getattr(loss, "bias", 1.0)), 1.0)


def closed_form(rows: Vector, y: Vector, weight: Vector) -> Vector:
    """Return the metric of the moments of the classes, of shape (d, d).

    With S and D the mean squares of differences of equal and of different labels it is
    S^-1 - D^-1, the log-likelihood ratio of two Gaussian models of a difference (Koestinger et al.,
    Large scale metric learning from equivalence constraints, CVPR 2012). Both get 0.3 of the mean
    variance of S, and no eigenvalue stays below a tenth of the largest one: classes may be told
    apart in other ways than by their means.
    """
    d = rows.shape[1]
    weight = weight if len(weight) else np.ones(len(y))
    weight = weight / weight.sum()

    def spread(part: Any = slice(None)) -> Vector:
        return np.cov(rows[part].T, aweights=weight[part], bias=True).reshape(d, d)

    within, equal = np.zeros((d, d)), 0.0
    for label in np.unique(y):
        share = float(weight[y == label].sum())
        within, equal = within + share * spread(y == label), equal + share**2
    apart = (spread() - equal * within) / (1.0 - equal)
    variances = np.diag(within)
    ridge = _RIDGE * float(variances[variances > 0.0].mean()) if variances.any() else 1.0
    shift = ridge * np.eye(d)
    values, vectors = np.linalg.eigh(np.linalg.inv(within + shift) - np.linalg.inv(apart + shift))
    values = np.maximum(values, _FLOOR * max(float(values[-1]), 0.0))
    return np.asarray((vectors * values) @ vectors.T) if values[-1] > 0.0 else np.eye(d)


def start_from(
    score: MahalanobisScore,
    loss: PairLoss,
    init: Any,
    X: Vector,
    differences: Differences,
    scaling: Scaling | None = None,
    weight: Vector = NO_WEIGHTS,
    metric: Vector | None = None,
) -> Vector:
    """Return the starting point as the score parameterises it.

    `init` is "identity" (for a low rank: the leading principal components), scaled so that the
    mean squared distance of typical differences is the bias of the loss, but at least 1; or W of
    shape (d, d), its diagonal (d,), or the factor L of shape (d, rank), as given: for the features
    of the user, if the rows X have been scaled. "auto" is `metric` scaled so, if there is one, and
    else "identity". `weight` is that of the rows, or empty.
    """
    d = X.shape[1]
    kind, rank = score.parameterization, score.rank
    if isinstance(init, str):
        if init not in ("auto", "identity"):
            raise ValueError(f'init must be "auto", "identity" or an array, got {init!r}.')
        (v, share), W = differences, metric if init == "auto" else None
        factor = np.eye(d)
        if W is None and kind == "low_rank":
            spread = np.cov(X.T, aweights=weight if len(weight) else None)
            factor = np.linalg.eigh(spread.reshape(d, d))[1][:, ::-1][:, :rank]
        by_factor = ((v @ factor) ** 2).sum(axis=1)
        mean = float(share @ (by_factor if W is None else np.einsum("nd,de,ne->n", v, W, v)))
        scale = _target(loss) / mean if mean > 0 else 1.0
        if kind == "low_rank" and W is None:
            return np.asarray(np.sqrt(scale) * factor)
        W = scale * (factor if W is None else W)
        if kind == "low_rank":
            return np.ascontiguousarray(components_of(MahalanobisScore(), W, d)[:rank].T)
        return np.diag(W).copy() if kind == "diagonal" else W
    start = np.asarray(init, dtype=np.float64)
    shape = {"full": (d, d), "diagonal": (d,), "low_rank": (d, rank)}[kind]
    if start.shape != shape:
        raise ValueError(f"init must have shape {shape} for {kind!r}, got {start.shape}.")
    if not np.isfinite(start).all():
        raise ValueError("init contains NaN or infinity; pass finite numbers.")
    if kind == "full":
        largest = np.abs(start).max(initial=0.0)
        if not np.allclose(start, start.T, rtol=1e-8, atol=1e-10 * largest):
            raise ValueError("init must be symmetric; pass 0.5 * (W + W.T).")
        least = float(np.linalg.eigvalsh(start)[0])
        if least < -1e-8 * largest:
            raise ValueError(
                f"init must be positive semi-definite, got an eigenvalue of {least:.3g}; pass "
                "PsdCone().project(W)."
            )
    if kind == "diagonal" and (start < 0).any():
        raise ValueError(f"init must not be negative, got {start.min():g}.")
    if scaling is None:
        return start
    # W = D V D and L = D M for the weights D of the scaling.
    if kind == "diagonal":
        return scaling.from_user(scaling.from_user(start))
    found = scaling.from_user(start.T).T
    return scaling.from_user(found) if kind == "full" else np.ascontiguousarray(found)


def unit_step(score: MahalanobisScore, loss: PairLoss, differences: Differences) -> float:
    """Return the step size that moves the squared distance of a typical pair by about 1.

    A step of eta changes h by eta ||v||^4 for a full matrix, eta sum_k v_k^4 for a diagonal, and
    4 eta ||v||^2 h for a factor; means over pairs stand for typical ones.
    """
    v, share = differences
    squared = v * v
    if score.parameterization == "full":
        change = float(share @ squared.sum(axis=1) ** 2)
    elif score.parameterization == "diagonal":
        change = float(share @ (squared * squared).sum(axis=1))
    else:
        change = 4.0 * _target(loss) * float(share @ squared.sum(axis=1))
    return 1.0 / change if change > 0 else 1.0


def components_of(score: MahalanobisScore, w: Vector, d: int) -> Vector:
    """Return L with W = L' L, rows in decreasing order of their weight.

    >>> components_of(MahalanobisScore("diagonal"), np.array([1.0, 4.0]), 2)
    array([[1., 0.],
           [0., 2.]])
    """
    if score.parameterization == "diagonal":
        return np.diag(np.sqrt(np.maximum(w, 0.0)))
    if score.parameterization == "low_rank":
        return np.ascontiguousarray(w.reshape(d, -1).T)
    values, vectors = np.linalg.eigh(w.reshape(d, d))
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.where(vectors[largest, np.arange(d)] < 0, -1.0, 1.0)
    return np.ascontiguousarray((vectors * np.sqrt(np.maximum(values, 0.0))).T[::-1])
