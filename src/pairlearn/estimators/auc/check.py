# SPDX-License-Identifier: BSD-3-Clause
"""Check an objective before training: gradient, weights, metric, and a fit by every solver."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.shared.solvers import SGD
from pairlearn.losses import PairLoss, SquaredHinge
from pairlearn.losses.slopes import STEP, JumpError, compare_slopes
from pairlearn.solvers.exact.batch import ScoreLoss
from pairlearn.solvers.top.objectives import Objective
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_generator, check_positive

#: Number of random scores: each costs two evaluations.
_N_SCORES = 24
#: Examples of the fits.
_N_ROWS = 200
#: A descent without a choice of the step size, which would take most of the time.
_DESCENT = SGD(step_size=0.3, n_passes=5)


@dataclass(frozen=True)
class ObjectiveCheck:
    """The findings of `check_objective` for an objective that passed."""

    #: Scores whose derivative was compared with differences.
    n_points: int
    #: The largest distance of a derivative from its two differences, over the largest derivative.
    largest_error: float
    #: The metric of the training scores of each fit, by solver.
    metrics: dict[str, float]


def check_objective(
    objective: Objective, *, loss: PairLoss | None = None, tolerance: float = 1e-4, seed: int = 0
) -> ObjectiveCheck:
    """Check an objective on random scores and by training with it.

    On random scores, with and without ties and weights, near each other and far apart, each
    derivative must lie between the differences of the value to the left and to the right. So must
    the slope along random lines, on both sides of the kinks that are found there. The value must
    not jump. Multiplying all weights, or adding a
    number to all scores, must change nothing. Scores in the right order must cost less than scores
    in the reverse order, and the metric must be larger for them. If the objective says that it is
    convex, the middle of two score vectors must not cost more than their mean. Then
    `AUCClassifier` trains with it: exactly with a choice of the ridge, by descent, and on a stream.

    Parameters
    ----------
    objective : Objective
        The objective.
    loss : PairLoss, optional
        The loss of a pair; the squared hinge by default.
    tolerance : float, default=1e-4
        Allowed error of a derivative, relative to the largest one.
    seed : int, default=0
        Seed of the scores and the examples.

    Returns
    -------
    ObjectiveCheck
        The findings.

    Raises
    ------
    ValueError
        If the objective fails; the message names the rule.

    Examples
    --------
    >>> from pairlearn.estimators import check_objective
    >>> from pairlearn.solvers import PartialArea
    >>> sorted(check_objective(PartialArea(0.2)).metrics)
    ['exact', 'sgd', 'stream']
    """
    if not isinstance(objective, Objective):
        raise TypeError(
            f"check_objective needs an Objective (an instance, not a class), got {objective!r}."
        )
    check_positive("tolerance", tolerance)
    loss = loss or SquaredHinge()
    objective.check_loss(loss)
    _check_candidates(objective)
    rng = check_generator(seed)
    positive = np.arange(_N_SCORES) % 3 == 0
    _check_metric(objective, positive)
    n_points, worst = 0, 0.0
    for one in objective.candidates:
        scores = rng.normal(size=_N_SCORES) + positive
        weight = rng.uniform(0.3, 2.0, _N_SCORES)
        rounded = np.round(scores)
        cases = [(scores, weight), (rounded, None), (rounded, weight)]
        cases += [(factor * scores, weight) for factor in (0.05, 20.0)]
        for given, own in cases:
            evaluate = one.of_scores(loss, positive, own)
            error = _gradient_error(one, evaluate, given)
            if given is not rounded:
                error = max(error, _line_error(one, evaluate, given, rng))
            if not error <= tolerance:
                raise ValueError(
                    f"the gradient of {one!r} differs from the differences of its value by "
                    f"{error:.2g} of its largest entry, more than tolerance={tolerance:g}; correct "
                    "one of the two numbers that of_scores returns."
                )
            n_points, worst = n_points + _N_SCORES, max(worst, error)
        _check_invariance(one, loss, positive, scores, weight)
        _check_order(one, loss, positive)
        if one.convex:
            _check_convex(one, one.of_scores(loss, positive, weight), rng)
    return ObjectiveCheck(n_points, worst, _fitted_metrics(objective, loss, seed))


def _check_candidates(objective: Objective) -> None:
    """Refuse candidates that are not objectives without a further choice."""
    found = objective.candidates
    if not isinstance(found, tuple) or not found:
        raise ValueError(
            f"{objective!r}.candidates is {found!r}; it must be a tuple of at least one Objective."
        )
    for one in found:
        if not isinstance(one, Objective) or one.candidates != (one,):
            raise ValueError(
                f"{objective!r}.candidates holds {one!r}, which must be an Objective with itself "
                "as the only candidate; leave nothing to choose in a candidate."
            )


def _check_metric(objective: Objective, positive: Mask) -> None:
    """Refuse a metric that does not prefer scores in the right order, or depends on units."""
    order = np.argsort(np.argsort(positive, kind="stable")).astype(np.float64)
    weight = np.full(len(order), 2.0)
    right, reverse = (objective.metric(positive, s) for s in (order, -order))
    doubled = objective.metric(positive, order, sample_weight=weight)
    if not (math.isfinite(right) and right > reverse):
        raise ValueError(
            f"the metric of {objective!r} is {right:g} for scores in the right order and "
            f"{reverse:g} for the reverse order; it must be larger for the right order."
        )
    if not math.isclose(doubled, right, rel_tol=1e-9):
        raise ValueError(
            f"the metric of {objective!r} is {right:g} without weights and {doubled:g} with the "
            "weight 2 for all; it must not depend on the scale of the weights."
        )


def _gradient_error(objective: Objective, evaluate: ScoreLoss, scores: Vector) -> float:
    """Return the largest error of the gradient, relative to its largest entry."""
    before = scores.copy()
    value, gradient = evaluate(scores)
    if np.shape(gradient) != scores.shape or not math.isfinite(value):
        raise ValueError(
            f"of_scores of {objective!r} gives the value {value!r} and a gradient of shape "
            f"{np.shape(gradient)} for {len(scores)} scores; return a finite number and one "
            "derivative for each score."
        )
    if not np.array_equal(scores, before):
        raise ValueError(f"{objective!r} changes the scores that it is given; work on a copy.")
    size, error = float(np.abs(gradient).max()), 0.0
    for k, slope in enumerate(gradient):
        step = np.zeros(len(scores))
        step[k] = STEP
        left = (value - evaluate(scores - step)[0]) / STEP
        right = (evaluate(scores + step)[0] - value) / STEP
        error = max(error, min(left, right) - slope, slope - max(left, right))
    # The rounding error of the differences.
    noise = 16.0 * float(np.finfo(float).eps) * abs(value) / STEP
    return max(float(error) - noise, 0.0) / max(size, noise)


def _line_error(
    objective: Objective, evaluate: ScoreLoss, scores: Vector, rng: np.random.Generator
) -> float:
    """Return the largest error of the slope along a random line, relative to the largest slope."""
    direction = rng.normal(size=len(scores))

    def value(places: Vector) -> Vector:
        return np.array([evaluate(scores + t * direction)[0] for t in places])

    def slope(places: Vector) -> Vector:
        return np.array([evaluate(scores + t * direction)[1] @ direction for t in places])

    try:
        found = compare_slopes(
            value, slope, np.linspace(-1.0, 1.0, 17), rng.uniform(-1.0, 1.0, 8), n_peaks=2
        )
    except JumpError as jump:
        raise ValueError(
            f"the value of {objective!r} jumps from {jump.before:.6g} to {jump.after:.6g} between "
            "two scores that are equal up to 1e-8; it must be continuous."
        ) from None
    size = float(np.abs(found.slope).max())
    return float(found.error.max()) / size if size > 0.0 else float(found.error.max())


def _check_invariance(
    objective: Objective, loss: PairLoss, positive: Mask, scores: Vector, weight: Vector
) -> None:
    """Refuse an objective that depends on the scale of weights or on the origin of scores."""
    changes = {
        "all weights are multiplied by 3": (3.0 * weight, scores, weight),
        "a number is added to all scores": (weight, scores + 5.0, weight),
        "weights of 1 are left out": (None, scores, np.ones(len(scores))),
    }
    for change, (new_weight, new_scores, old_weight) in changes.items():
        old = objective.of_scores(loss, positive, old_weight)(scores)
        new = objective.of_scores(loss, positive, new_weight)(new_scores)
        same = math.isclose(old[0], new[0], rel_tol=1e-7, abs_tol=1e-12)
        if not (same and np.allclose(old[1], new[1], rtol=1e-6, atol=1e-9)):
            raise ValueError(
                f"{objective!r} changes (from {old[0]:.6g} to {new[0]:.6g}), or its gradient, if "
                f"{change}; divide the weights of each class by their sum, and use differences of "
                "scores."
            )


def _check_order(objective: Objective, loss: PairLoss, positive: Mask) -> None:
    """Refuse an objective that does not reward the right order."""
    evaluate = objective.of_scores(loss, positive, None)
    right = np.where(positive, 1.0, -1.0)
    if not evaluate(right)[0] < evaluate(-right)[0]:
        raise ValueError(
            f"{objective!r} is {evaluate(right)[0]:g} for positives above negatives and "
            f"{evaluate(-right)[0]:g} for the reverse; it is minimised, so change its sign."
        )


def _check_convex(objective: Objective, evaluate: ScoreLoss, rng: np.random.Generator) -> None:
    """Refuse an objective that is not convex in the scores, though it says so."""
    for _ in range(50):
        one, other = 2.0 * rng.normal(size=(2, _N_SCORES))
        ends, middle = 0.5 * (evaluate(one)[0] + evaluate(other)[0]), evaluate(0.5 * (one + other))
        if middle[0] > ends + 1e-7 * (1.0 + abs(ends)):
            raise ValueError(
                f"{objective!r} is {middle[0]:g} in the middle of two score vectors whose mean "
                f"value is {ends:g}, so it is not convex; set convex = False in its class."
            )


def _fitted_metrics(objective: Objective, loss: PairLoss, seed: int) -> dict[str, float]:
    """Train by every solver; return the metric of the training scores by name of the solver."""
    rng = check_generator(seed)
    X = rng.normal(size=(_N_ROWS, 3))
    y = (X[:, 0] + rng.normal(size=_N_ROWS) > 0.5).astype(int)
    found = {}
    for name, solver in (("exact", "exact"), ("sgd", _DESCENT), ("stream", _DESCENT)):
        model = AUCClassifier(objective, loss=loss, solver=solver, random_state=seed)
        if name == "stream":
            for begin in range(0, _N_ROWS, 50):
                part = slice(begin, begin + 50)
                model.partial_fit(X[part], y[part], classes=[0, 1])
        else:
            model.fit(X, y)
        scores = model.decision_function(X)
        found[name] = float(objective.metric(y > 0, scores))
        if not found[name] > objective.metric(y > 0, -scores):
            raise ValueError(
                f"AUCClassifier({objective!r}) by {name} has the metric {found[name]:g} on its "
                "training data, no better than with all scores turned round; see whether the "
                "minimum of the objective orders positives first."
            )
    return found
