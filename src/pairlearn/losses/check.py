# SPDX-License-Identifier: BSD-3-Clause
"""Check a loss before training: slopes, compilation, symmetry and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.losses.base import PairLoss
from pairlearn.losses.slopes import JumpError, Slopes, compare_slopes
from pairlearn.scalars import Scalar, check_compiled
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_generator, check_positive, finite_numbers, real_array

#: By default scores are tried densely up to the first number, and sparsely up to the second.
_NEAR, _FAR = 8.0, 100.0
#: Steps of the dense part, of each sparse part, and random scores.
_N_NEAR, _N_FAR, _N_RANDOM = 1024, 64, 1000
#: Allowed rounding error of a slope, relative to 1 plus its size.
_ROUNDING = 1e-9

Points = NDArray[np.float64]


@dataclass(frozen=True)
class LossCheck:
    """The findings of `check_loss` for a loss that passed."""

    #: Pairs of a score and two labels that were tried.
    n_points: int
    #: The largest distance of a slope from its two differences, divided by 1 + its size.
    largest_error: float
    #: Kinks that were found, over all pairs of labels.
    n_kinks: int
    #: Whether a pair costs the same in either order.
    symmetric: bool


def check_loss(
    loss: PairLoss,
    *,
    scores: Sequence[float] | None = None,
    labels: Sequence[tuple[float, float]] = ((1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (2.5, 0.5)),
    tolerance: float = 1e-5,
    seed: int = 0,
) -> LossCheck:
    r"""Check a pair loss by finite differences.

    At each score and pair of labels, the derivative must lie between the differences to the left
    and to the right, (l(s) - l(s - h)) / h and (l(s + h) - l(s)) / h with h = 1e-6, up to the
    tolerance. So it is the derivative, or a generalised one at a kink. Scores are those of a fine
    grid, random ones, and some on both sides of each kink: kinks are searched, so you need not name
    them. Values must be finite and must not jump. The compiled functions and the array form must
    agree with the Python ones. Slopes must respect `slope_bound` and values `value_bound`, and the
    change of slopes `curvature_bound` and `curvature_floor`, if the loss states them. Slopes of a
    loss that is `convex` must not fall with the score, and where it `falls` they must not be
    positive: solvers, bounds and promises of privacy rest on that. `sums` must be sums over all
    pairs, and a loss that is `by_moments` must be (parameter - margin)^2.

    A slope that is wrong over an interval of .016 or more between -8 and 8 is always found; a
    narrower one, if it lies next to a kink or if a random score meets it.

    Parameters
    ----------
    loss : PairLoss
        The loss.
    scores : sequence of float, optional
        Scores to try. The grid, the random scores and the search for kinks then go from the least
        of them to the largest. Default: a grid of step 1/64 from -8 to 8 and a coarse one up to
        100 on both sides; from 0 on for a loss of a distance.
    labels : sequence of (float, float), optional
        Pairs of labels to try. Pairs that the loss does not count (equal labels with
        ``opposite_labels_only``, a smaller first label with ``one_sided``) are left out.
    tolerance : float, default=1e-5
        Allowed error of a slope, relative to 1 plus its size.
    seed : int, default=0
        Seed of the random scores.

    Returns
    -------
    LossCheck
        The findings.

    Raises
    ------
    ValueError
        If the loss fails; the message names the worst point.

    Examples
    --------
    >>> from pairlearn import Hinge
    >>> from pairlearn.losses import check_loss
    >>> check_loss(Hinge()).n_kinks
    3
    """
    if not isinstance(loss, PairLoss):
        raise TypeError(f"check_loss needs a PairLoss (an instance, not a class), got {loss!r}.")
    for name in ("value", "derivative"):
        if not isinstance(getattr(loss, name, None), Scalar):
            raise ValueError(
                f"{type(loss).__name__}.{name} must be a function decorated with @scalar, of "
                "(score, y, y_partner, parameter)."
            )
    check_positive("tolerance", tolerance)
    grid, others = _tried(loss, scores, check_generator(seed))
    pairs = [
        (y, other)
        for y, other in _labels(labels)
        if not (loss.opposite_labels_only and y == other) and not (loss.one_sided and not y > other)
    ]
    if not pairs:
        raise ValueError("The loss counts none of the given pairs of labels; give others.")
    worst, n_kinks, points = 0.0, 0, []
    for y, other in pairs:
        found = _slopes(loss, y, other, grid, others)
        error = found.error / (1.0 + np.abs(found.slope))
        if loss.kind == "distance":
            # two equal examples have the gradient 0, whatever the slope
            error[found.points == 0.0] = 0.0
        k = int(np.argmax(error))
        if not error[k] <= tolerance:
            raise ValueError(_wrong_slope(loss, y, other, found, k))
        _check_shape(loss, y, other, found)
        worst, n_kinks = max(worst, float(error[k])), n_kinks + len(found.kinks)
        points.append(np.column_stack(np.broadcast_arrays(found.points, y, other)))
    every = np.concatenate(points)
    _check_array_form(loss, every)
    _check_short_cuts(loss, others)
    for name in ("value", "derivative"):
        check_compiled(
            f"{type(loss).__name__}.{name}",
            getattr(loss, name),
            [(*point, loss.parameter) for point in every.tolist()],
        )
    _check_bounds(loss, every)
    s, y_, other_ = every.T
    turned = s if loss.kind == "distance" else -s
    swapped = loss.value.many(turned, other_, y_, loss.parameter)
    symmetric = np.allclose(_at(loss, "value", every), swapped, rtol=1e-9, atol=1e-12)
    return LossCheck(len(every), worst, n_kinks, symmetric)


def _labels(labels: Sequence[tuple[float, float]]) -> list[list[float]]:
    """Return pairs of finite labels: of NaN no loss knows which is the larger."""
    array = np.asarray(real_array("labels", labels))
    numbers = array.dtype.kind in "biuf" and np.isfinite(array).all()
    if array.ndim != 2 or array.shape[1] != 2 or not numbers:
        raise ValueError(f"labels must be a list of pairs of finite numbers, got {labels!r}.")
    found: list[list[float]] = array.astype(np.float64).tolist()
    return found


def _tried(
    loss: PairLoss, scores: Sequence[float] | None, rng: np.random.Generator
) -> tuple[Vector, Vector]:
    """Return a grid in which kinks are searched, and further scores to try."""
    if scores is not None:
        given = finite_numbers("scores", scores)
        low, high = float(given.min()), float(given.max())
        if low < 0.0 and loss.kind == "distance":
            raise ValueError(f"scores of a loss of a distance must not be negative, got {low:g}.")
        grid = np.unique(np.append(np.linspace(low, high, _N_NEAR + 1), given))
        return grid, np.append(rng.uniform(low, high, _N_RANDOM), given)
    far = np.geomspace(_NEAR, _FAR, _N_FAR + 1)[1:]
    grid = np.concatenate((-far[::-1], np.linspace(-_NEAR, _NEAR, _N_NEAR + 1), far))
    random = rng.uniform(-_NEAR, _NEAR, _N_RANDOM)
    beyond = rng.choice([-1.0, 1.0], _N_FAR) * rng.uniform(_NEAR, _FAR, _N_FAR)
    others = np.concatenate((random, beyond))
    return (grid[grid >= 0.0], np.abs(others)) if loss.kind == "distance" else (grid, others)


def _at(loss: PairLoss, name: str, points: Points) -> Vector:
    """Return the compiled values or derivatives at rows of a score and two labels."""
    function: Scalar = getattr(loss, name)
    return function.many(points[:, 0], points[:, 1], points[:, 2], loss.parameter)


def _slopes(loss: PairLoss, y: float, other: float, grid: Vector, others: Vector) -> Slopes:
    """Return the slopes for one pair of labels; refuse values that jump or are not finite."""
    name = type(loss).__name__

    def at(kind: str, s: Vector) -> Vector:
        found = _at(loss, kind, np.column_stack(np.broadcast_arrays(s, y, other)))
        if not np.isfinite(found).all():
            k = int(np.argmin(np.isfinite(found)))
            raise ValueError(
                f"{name} is not finite at score {s[k]:g} and labels ({y:g}, {other:g}): {kind} "
                f"{found[k]}."
            )
        return found

    def value(s: Vector) -> Vector:
        if loss.kind != "distance" or s.min() >= 0.0:
            return at("value", s)
        # a squared distance is not negative: left of 0 the loss is turned about its value at 0
        found = at("value", np.abs(s))
        return np.where(s < 0.0, 2.0 * at("value", np.zeros(1)) - found, found)

    try:
        return compare_slopes(value, lambda s: at("derivative", s), grid, others)
    except JumpError as jump:
        raise ValueError(
            f"{name}.value jumps from {jump.before:.6g} to {jump.after:.6g} at score "
            f"{jump.place:.6g} and labels ({y:g}, {other:g}); a loss must be continuous."
        ) from None


def _wrong_slope(loss: PairLoss, y: float, other: float, found: Slopes, k: int) -> str:
    return (
        f"{type(loss).__name__}.derivative is {found.slope[k]:.6g} at score {found.points[k]:.6g} "
        f"and labels ({y:g}, {other:g}), but its value changes by {found.left[k]:.6g} (left) and "
        f"{found.right[k]:.6g} (right) per unit of score; correct one of the two functions."
    )


def _check_shape(loss: PairLoss, y: float, other: float, found: Slopes) -> None:
    """Refuse slopes against which speaks what the loss says of itself."""
    name, kept = type(loss).__name__, np.argsort(found.points)
    if loss.kind == "distance":
        kept = kept[found.points[kept] != 0.0]
    s, slope = found.points[kept], found.slope[kept]
    room = _ROUNDING * (1.0 + np.abs(slope))

    def refuse(wrong: Mask, rule: str) -> None:
        if wrong.any():
            k = int(np.argmax(wrong))
            raise ValueError(
                f"{name} says that {rule}, but its slope goes from {slope[k]:.6g} at score "
                f"{s[k]:.6g} to {slope[k + 1]:.6g} at {s[k + 1]:.6g}, for labels ({y:g}, "
                f"{other:g}); correct the statement or the function."
            )

    change, gap, slack = np.diff(slope), np.diff(s), room[1:] + room[:-1]
    if loss.convex:
        refuse(change < -slack, "it is convex (convex = True)")
    reach = np.maximum(np.abs(s[1:]), np.abs(s[:-1])).tolist()
    if type(loss).curvature_bound is not PairLoss.curvature_bound:
        bound = np.array([loss.curvature_bound(m) for m in reach])
        refuse(np.abs(change) > bound * gap + slack, "curvature_bound bounds the change of slopes")
    if type(loss).curvature_floor is not PairLoss.curvature_floor:
        floor = np.array([loss.curvature_floor(m) for m in reach])
        refuse(change < floor * gap - slack, "slopes rise as curvature_floor does")
    if loss.kind == "margin":
        rises = (slope if y > other else -slope) > room
        told = [k for k in np.flatnonzero(rises).tolist() if loss.falls(abs(float(s[k])))]
        if told:
            raise ValueError(
                f"{name} says that it falls (never_increases or falls), but rises by "
                f"{abs(slope[told[0]]):.6g} at score {s[told[0]]:.6g} and labels ({y:g}, "
                f"{other:g}); correct the statement or the function."
            )


def _check_array_form(loss: PairLoss, points: Points) -> None:
    """Refuse `values` and `slopes` that differ from the scalar functions."""
    if not loss.has_array_form:
        return
    signs = np.where(points[:, 1] > points[:, 2], 1.0, -1.0)
    margins = signs * points[:, 0]
    for one, found in (("value", loss.values(margins)), ("derivative", loss.slopes(margins))):
        expected = _at(loss, one, points)
        if one == "derivative":
            expected = signs * expected
        wrong = ~np.isclose(found, expected, rtol=1e-9, atol=1e-12)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ValueError(
                f"{type(loss).__name__}.{one} is {expected[first]:g} at margin {margins[first]:g}, "
                f"but its array form gives {found[first]:g}; correct one of the two, or leave "
                "`values` and `slopes` to PairLoss."
            )


def _check_short_cuts(loss: PairLoss, scores: Vector) -> None:
    """Refuse `sums` that are none, and moments of a loss that is no square."""
    if not (loss.by_sorting or loss.by_moments):
        return
    p, q = scores[:8], np.append(scores[8:24], scores[:4])
    margins, b = p[:, None] - q, np.resize([1.0, 2.0, 3.0], len(q))
    values, slopes = (form(margins.ravel()).reshape(margins.shape) for form in
                      (loss.values, loss.slopes))  # fmt: skip
    if loss.by_sorting:
        for what, found, of_all in zip(("l", "l'"), loss.sums(p, q, b), (values, slopes),
                                       strict=True):  # fmt: skip
            if not np.allclose(found, of_all @ b, rtol=1e-9, atol=1e-9 * np.abs(of_all @ b).max()):
                k = int(np.argmax(np.abs(found - of_all @ b)))
                raise ValueError(
                    f"{type(loss).__name__}.sums gives {found[k]:g} for the sum of b_j {what}(p_i "
                    f"- q_j) at p_i = {p[k]:g}, and all pairs give {(of_all @ b)[k]:g}; correct "
                    "it, or leave it to PairLoss."
                )
    if loss.by_moments and not np.allclose(values, (loss.parameter - margins) ** 2):
        raise ValueError(
            f"{type(loss).__name__} says that it is (parameter - margin)^2 (by_moments = True), "
            "which it is not; leave by_moments out."
        )


def _check_bounds(loss: PairLoss, points: Points) -> None:
    for bound_name, name in (("slope_bound", "derivative"), ("value_bound", "value")):
        if getattr(type(loss), bound_name) is getattr(PairLoss, bound_name):
            continue
        for point, found in zip(points.tolist(), np.abs(_at(loss, name, points)), strict=True):
            bound = getattr(loss, bound_name)(abs(point[0]))
            if found > bound * (1.0 + 1e-9) + 1e-12:
                raise ValueError(
                    f"{type(loss).__name__}.{bound_name}({abs(point[0]):g}) is {bound:g}, but "
                    f"{name} reaches {found:g} at {tuple(point)}."
                )
