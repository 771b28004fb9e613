# SPDX-License-Identifier: BSD-3-Clause
"""Check a loss before training: slopes, compilation, symmetry and bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.losses.base import PairLoss
from pairlearn.scalars import Scalar, check_compiled
from pairlearn.validation import check_positive

#: Step of the finite differences.
_STEP = 1e-6


@dataclass(frozen=True)
class LossCheck:
    """The findings of `check_loss` for a loss that passed."""

    #: Pairs of a score and two labels that were tried.
    n_points: int
    #: The largest distance of a slope from its two differences, divided by 1 + its size.
    largest_error: float
    #: Points at which the two one-sided differences disagree: kinks.
    n_kinks: int
    #: Whether a pair costs the same in either order.
    symmetric: bool


def check_loss(
    loss: PairLoss,
    *,
    scores: Sequence[float] | None = None,
    labels: Sequence[tuple[float, float]] = ((1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (2.5, 0.5)),
    tolerance: float = 1e-5,
) -> LossCheck:
    r"""Check a pair loss by finite differences.

    At each score and pair of labels, the derivative must lie between the differences to the left
    and to the right, (l(s) - l(s - h)) / h and (l(s + h) - l(s)) / h with h = 1e-6, up to the
    tolerance. So it is the derivative, or a generalised one at a kink. Values must be finite. The
    compiled functions and the array form must agree with the Python ones. Slopes must respect
    `slope_bound` and values `value_bound`, if the loss states them.

    Parameters
    ----------
    loss : PairLoss
        The loss.
    scores : sequence of float, optional
        Scores to try. Default: 0, whole and half numbers up to 4, and some others. Add the points
        at which your loss changes its form.
    labels : sequence of (float, float), optional
        Pairs of labels to try. Pairs that the loss does not count (equal labels with
        ``opposite_labels_only``, a smaller first label with ``one_sided``) are left out.
    tolerance : float, default=1e-5
        Allowed error of a slope, relative to 1 plus its size.

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
    if scores is None:
        scores = [*np.arange(-4.0, 4.5, 0.5), -17.3, -0.123, 0.321, 23.7]
    points = [
        (float(score), float(y), float(other))
        for score in scores
        for y, other in labels
        if not (loss.opposite_labels_only and y == other) and not (loss.one_sided and not y > other)
    ]
    if not points:
        raise ValueError("The loss counts none of the given pairs of labels; give others.")
    worst, n_kinks = 0.0, 0
    for point in points:
        error, has_kink = _error_at(loss, *point)
        worst, n_kinks = max(worst, error), n_kinks + has_kink
        if not error <= tolerance:
            raise ValueError(_wrong_slope(loss, *point))
    _check_array_form(loss, points)
    for name in ("value", "derivative"):
        check_compiled(
            f"{type(loss).__name__}.{name}",
            getattr(loss, name),
            [(*point, loss.parameter) for point in points],
        )
    _check_bounds(loss, points)
    symmetric = all(
        math.isclose(
            loss.value(s, y, other, loss.parameter),
            loss.value(-s, other, y, loss.parameter),
            rel_tol=1e-9,
            abs_tol=1e-12,
        )
        for s, y, other in points
    )
    return LossCheck(len(points), worst, n_kinks, symmetric)


def _differences(loss: PairLoss, s: float, y: float, other: float) -> tuple[float, float]:
    here = loss.value(s, y, other, loss.parameter)
    before = loss.value(s - _STEP, y, other, loss.parameter)
    after = loss.value(s + _STEP, y, other, loss.parameter)
    return (here - before) / _STEP, (after - here) / _STEP


def _error_at(loss: PairLoss, s: float, y: float, other: float) -> tuple[float, bool]:
    """Return the relative error of the slope at a point, and whether there is a kink."""
    value = loss.value(s, y, other, loss.parameter)
    slope = loss.derivative(s, y, other, loss.parameter)
    if not (math.isfinite(value) and math.isfinite(slope)):
        raise ValueError(
            f"{type(loss).__name__} is not finite at score {s:g} and labels ({y:g}, {other:g}): "
            f"value {value!r}, derivative {slope!r}."
        )
    left, right = _differences(loss, s, y, other)
    # The rounding error of the differences.
    noise = 8.0 * float(np.finfo(float).eps) * abs(value) / _STEP
    outside = max(min(left, right) - slope, slope - max(left, right), 0.0)
    size = 1.0 + abs(slope)
    return max(outside - noise, 0.0) / size, abs(left - right) > noise + 1e-3 * size


def _wrong_slope(loss: PairLoss, s: float, y: float, other: float) -> str:
    left, right = _differences(loss, s, y, other)
    slope = loss.derivative(s, y, other, loss.parameter)
    return (
        f"{type(loss).__name__}.derivative is {slope:.6g} at score {s:g} and labels ({y:g}, "
        f"{other:g}), but its value changes by {left:.6g} (left) and {right:.6g} (right) per unit "
        "of score; correct one of the two functions."
    )


def _check_array_form(loss: PairLoss, points: list[tuple[float, float, float]]) -> None:
    """Refuse `values` and `slopes` that differ from the scalar functions."""
    if not loss.has_array_form:
        return
    signs = np.array([1.0 if y > other else -1.0 for _, y, other in points])
    margins = signs * [score for score, _, _ in points]
    for one, found in (("value", loss.values(margins)), ("derivative", loss.slopes(margins))):
        expected = np.array([getattr(loss, one)(*point, loss.parameter) for point in points])
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


def _check_bounds(loss: PairLoss, points: list[tuple[float, float, float]]) -> None:
    for bound_name, name in (("slope_bound", "derivative"), ("value_bound", "value")):
        if getattr(type(loss), bound_name) is getattr(PairLoss, bound_name):
            continue
        for point in points:
            found = abs(getattr(loss, name)(*point, loss.parameter))
            bound = getattr(loss, bound_name)(abs(point[0]))
            if found > bound * (1.0 + 1e-9) + 1e-12:
                raise ValueError(
                    f"{type(loss).__name__}.{bound_name}({abs(point[0]):g}) is {bound:g}, but "
                    f"{name} reaches {found:g} at {point}."
                )
