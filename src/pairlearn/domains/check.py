# SPDX-License-Identifier: BSD-3-Clause
"""Check a coordinatewise domain before training."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.domains.coordinatewise import CoordinatewiseDomain
from pairlearn.scalars import Scalar, check_compiled
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_generator, finite_numbers

Array = Vector

#: Allowed relative rounding error.
_ROUNDING = 1e-12
#: Distances from a parameter at which the function is tried.
_SIDES = (1e-6, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class DomainCheck:
    """The findings of `check_domain` for a domain that passed."""

    #: Pairs of a coordinate and a step size that were tried.
    n_points: int
    #: Points that the domain moves.
    n_moved: int
    #: Whether zero stays zero at every step size, as sparse models need.
    keeps_zero: bool


def check_domain(
    domain: CoordinatewiseDomain,
    *,
    values: Sequence[float] | None = None,
    step_sizes: Sequence[float] = (0.0, 1e-3, 0.1, 0.5, 2.0),
    seed: int = 0,
) -> DomainCheck:
    """Check a coordinatewise domain at points of the line.

    Results must be finite, and the compiled functions must agree with the Python one. As for every
    projection and proximal step of a convex function, a larger coordinate must not end below a
    smaller one, and two coordinates must not move apart. A projection must not depend on the step
    size, and must not move a point twice.

    Parameters
    ----------
    domain : CoordinatewiseDomain
        The domain.
    values : sequence of float, optional
        Coordinates to try. Default: a grid of step 1/64 from -8 to 8, random coordinates, some
        larger ones, and the finite parameters of the domain with points on both sides of them.
    step_sizes : sequence of float, optional
        Step sizes to try.
    seed : int, default=0
        Seed of the random coordinates.

    Returns
    -------
    DomainCheck
        The findings.

    Raises
    ------
    ValueError
        If the domain fails; the message names the worst point.

    Examples
    --------
    >>> from pairlearn import NonNegative
    >>> from pairlearn.domains import check_domain
    >>> check_domain(NonNegative()).keeps_zero
    True
    """
    if not isinstance(domain, CoordinatewiseDomain):
        raise TypeError(
            f"check_domain needs a CoordinatewiseDomain (an instance, not a class), got {domain!r}."
        )
    name = type(domain).__name__
    if not isinstance(getattr(domain, "proximal", None), Scalar):
        raise ValueError(
            f"{name}.proximal must be a function decorated with @scalar, of "
            "(value, step_size, first, second)."
        )
    parameters = domain.parameters
    if len(parameters) != 2 or any(math.isnan(value) for value in parameters):
        raise ValueError(f"{name}.parameters must be two numbers, got {parameters!r}.")
    if values is None:
        kinks = np.array([sign * p for p in parameters for sign in (-1, 1) if math.isfinite(p)])
        near = np.array([0.0, *_SIDES, *(-side for side in _SIDES)])
        values = [*np.linspace(-8.0, 8.0, 1025), -1e6, -17.3, 1e-3, 23.7, 1e6]
        values += check_generator(seed).uniform(-8.0, 8.0, 500).tolist()
        values += np.add.outer(kinks, near).ravel().tolist()
    line = np.unique(finite_numbers("values", values))
    sizes = finite_numbers("step_sizes", step_sizes)
    if sizes.min() < 0.0:
        raise ValueError(f"step_sizes must not be negative, got {sizes.min():g}.")
    taken = np.array([domain.step(line, eta) for eta in sizes])
    refuse = functools.partial(_refuse, line, sizes)
    refuse(~np.isfinite(taken), f"{name} must give finite numbers, but gives", taken)
    points = [(float(v), float(eta), *parameters) for eta in sizes for v in line]
    check_compiled(f"{name}.proximal", domain.proximal, points)
    gaps, apart = np.diff(taken, axis=1), np.diff(line)
    room = _ROUNDING * (1.0 + np.abs(line))
    slack = room[1:] + room[:-1]
    rule = f"{name} must keep the order, but the next coordinate above ends at a gap of"
    refuse(gaps < -slack, rule, gaps)
    rule = f"{name} must not move coordinates apart, but the next one above ends further away by"
    refuse(gaps > apart + slack, rule, gaps - apart)
    if domain.is_projection:
        rule = (
            f"{name} says that it is a projection, but {{}}; set is_projection = False or correct "
            "the function. The difference is"
        )
        change = np.abs(taken - taken[0])
        refuse(change > room, rule.format("it depends on the step size"), change)
        again = [domain.step(row, eta) for row, eta in zip(taken, sizes, strict=True)]
        change = np.abs(np.array(again) - taken)
        refuse(change > room, rule.format("it moves a point twice"), change)
    zero = [domain.proximal(0.0, float(eta), *parameters) for eta in sizes]
    return DomainCheck(taken.size, int(np.count_nonzero(taken != line)), not any(zero))


def _refuse(line: Array, sizes: Array, bad: Mask, rule: str, amount: Array) -> None:
    """Raise for the worst of the bad points, if there is one."""
    if bad.any():
        worst = np.where(bad, np.nan_to_num(np.abs(amount), nan=np.inf), -1.0)
        e, k = np.unravel_index(int(np.argmax(worst)), bad.shape)
        raise ValueError(
            f"{rule} {amount[e, k]:.6g}, at coordinate {line[k]:g} and step size {sizes[e]:g}."
        )
