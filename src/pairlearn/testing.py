# SPDX-License-Identifier: BSD-3-Clause
"""Try a part of your own before training: each check is silent, or raises a ValueError.

The message of an error names the place where the part breaks its rule. `check_loss`,
`check_pairing`, `check_comparison`, `check_schedule`, `check_domain`, `check_features` and
`check_objective` try one kind of part each; `check_mechanism` of `pairlearn.privacy` tries a
private one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.comparisons import Comparison
from pairlearn.domains import CoordinatewiseDomain
from pairlearn.features import FeatureMap
from pairlearn.features.restore import restored_map
from pairlearn.losses import PairLoss
from pairlearn.pairings import Pairing, Plan
from pairlearn.pairings.queries import GroupedSource
from pairlearn.pairings.sound import check_keep, check_plan
from pairlearn.scalars import Scalar, check_compiled
from pairlearn.schedules import Schedule
from pairlearn.solvers import Objective
from pairlearn.typing import Mask, Vector
from pairlearn.validation import finite_numbers

#: Step of the differences that a derivative is compared with.
_STEP = 1e-6


def _need(kind: type, part: Any) -> str:
    if not isinstance(part, kind):
        raise TypeError(
            f"the check needs a {kind.__name__} (an instance, not a class), got {part!r}."
        )
    return type(part).__name__


def _refuse(wrong: Any, say: Any) -> None:
    """Raise what `say` says of the first wrong place, if there is one."""
    places = np.flatnonzero(wrong)
    if len(places):
        raise ValueError(say(int(places[0])))


def check_loss(
    loss: PairLoss,
    *,
    scores: Sequence[float] | None = None,
    labels: Sequence[tuple[float, float]] = ((1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (2.5, 0.5)),
    tolerance: float = 1e-5,
) -> None:
    r"""Check a pair loss by finite differences.

    At each score and pair of labels the derivative must lie between the differences to the left
    and to the right, (l(s) - l(s - h)) / h and (l(s + h) - l(s)) / h with h = 1e-6: so it is the
    derivative, or a generalised one at a kink. From one score to the next the value must change by
    the integral of the derivative, so that it does not jump. What the loss says of itself must hold
    there: `convex`, `falls`, `by_moments`, `sums`, `values`, `slopes`, and its bounds. The compiled
    functions must agree with the Python ones.

    Parameters
    ----------
    loss : PairLoss
        The loss.
    scores : sequence of float, optional
        Scores to try; by default a grid of step 1/64 from -8 to 8 with random ones and some as far
        as 100, from 0 on for a loss of a distance.
    labels : sequence of (float, float), optional
        Pairs of labels to try. Pairs that the loss does not count are left out.
    tolerance : float, default=1e-5
        Allowed error of a slope, relative to 1 plus its size.

    Examples
    --------
    >>> from pairlearn import Hinge
    >>> check_loss(Hinge())
    """
    name = _need(PairLoss, loss)
    for which in ("value", "derivative"):
        if not isinstance(getattr(loss, which, None), Scalar):
            raise ValueError(
                f"{name}.{which} must be a function decorated with @scalar, of "
                "(score, y, y_partner, parameter)."
            )
    if scores is None:
        random = np.random.default_rng(0).uniform(-8.0, 8.0, 1000)
        far = np.geomspace(8.0, 100.0, 65)
        scores = np.concatenate((np.linspace(-8.0, 8.0, 1025), random, far, -far)).tolist()
        scores = [abs(s) for s in scores] if loss.kind == "distance" else scores
    s = np.unique(finite_numbers("scores", scores))
    if loss.kind == "distance":
        _refuse(s < 0.0, lambda k: f"a distance must not be negative, got the score {s[k]:g}.")
        s = np.maximum(s, 2.0 * _STEP)
    pairs = [
        (float(y), float(other)) for y, other in labels
        if not (loss.opposite_labels_only and y == other) and not (loss.one_sided and not y > other)
    ]  # fmt: skip
    if not pairs:
        raise ValueError("The loss counts none of the given pairs of labels; give others.")
    for y, other in pairs:
        _check_slopes(loss, s, y, other, tolerance)
        points = [(x, y, other, loss.parameter) for x in s[:: max(1, len(s) // 300)].tolist()]
        check_compiled(f"{name}.value", loss.value, points)
        check_compiled(f"{name}.derivative", loss.derivative, points)
    if loss.by_sorting or loss.by_moments:
        _check_short_cuts(loss)


def _check_slopes(loss: PairLoss, s: Vector, y: float, other: float, tolerance: float) -> None:
    name, pair = type(loss).__name__, f"labels ({y:g}, {other:g})"

    def at(function: Scalar, places: Vector) -> Vector:
        result = function.many(places, y, other, loss.parameter)
        _refuse(
            ~np.isfinite(result),
            lambda k: f"{name} is not finite at score {places[k]:g} and {pair}: {result[k]}.",
        )
        return result

    value, slope = at(loss.value, s), at(loss.derivative, s)
    left = (value - at(loss.value, s - _STEP)) / _STEP
    right = (at(loss.value, s + _STEP) - value) / _STEP
    noise = 8.0 * np.finfo(float).eps * np.abs(value) / _STEP
    room = tolerance * (1.0 + np.abs(slope)) + noise
    low, high = np.minimum(left, right), np.maximum(left, right)
    _refuse(
        (slope < low - room) | (slope > high + room),
        lambda k: (
            f"{name}.derivative is {slope[k]:.6g} at score {s[k]:.6g} and {pair}, but its value "
            f"changes by {left[k]:.6g} (left) and {right[k]:.6g} (right) per unit of score; "
            "correct one of the two functions."
        ),
    )
    gap, change, rise = np.diff(s), np.diff(slope), np.diff(value)
    integral = 0.5 * (slope[1:] + slope[:-1]) * gap
    near = gap < 0.1
    off = np.abs(rise - integral) > (np.abs(change) + 1e-3 * (1.0 + np.abs(slope[1:]))) * gap + 1e-9
    _refuse(
        near & off,
        lambda k: (
            f"{name}.value goes from {value[k]:.6g} at score {s[k]:.6g} to {value[k + 1]:.6g} at "
            f"{s[k + 1]:.6g} for {pair}, which its derivative does not explain: a loss must be "
            "continuous."
        ),
    )
    reach = np.abs(s)
    slack = 1e-9 * (1.0 + np.abs(slope[1:]) + np.abs(slope[:-1]))
    signs = (slope if y > other else -slope) > 1e-9 * (1.0 + np.abs(slope))
    rules: list[tuple[str, Any]] = [("convex", loss.convex and (change < -slack))]
    if loss.kind == "margin":
        falls = np.array([loss.falls(float(m)) for m in reach])
        rules.append(("never_increases or falls", signs & falls))
    bounds = {"slope_bound": np.abs(slope), "value_bound": np.abs(value)}
    for bound, size in bounds.items():
        if getattr(type(loss), bound) is not getattr(PairLoss, bound):
            most = np.array([getattr(loss, bound)(float(m)) for m in reach])
            rules.append((bound, size > most * (1.0 + 1e-9) + 1e-12))
    larger = np.maximum(reach[1:], reach[:-1])
    if type(loss).curvature_bound is not PairLoss.curvature_bound:
        most = np.array([loss.curvature_bound(float(m)) for m in larger])
        rules.append(("curvature_bound", np.abs(change) > most * gap + slack))
    if type(loss).curvature_floor is not PairLoss.curvature_floor:
        least = np.array([loss.curvature_floor(float(m)) for m in larger])
        rules.append(("curvature_floor", change < least * gap - slack))
    for rule, wrong in rules:
        _refuse(
            wrong,
            lambda k, rule=rule: (
                f"{name}.{rule} does not hold at score {s[k]:.6g} and {pair}: the value is "
                f"{value[k]:.6g} and the slope {slope[k]:.6g}; correct the statement or the "
                "function."
            ),
        )
    if loss.has_array_form and y != other:
        sign = 1.0 if y > other else -1.0
        forms = (("value", loss.values(sign * s), value), ("derivative", loss.slopes(sign * s), sign * slope))  # fmt: skip  # noqa: E501
        for which, array_form, expected in forms:
            _refuse(
                ~np.isclose(array_form, expected, rtol=1e-9, atol=1e-12),
                lambda k, which=which, array_form=array_form, expected=expected: (
                    f"{name}.{which} is {expected[k]:g} at margin {sign * s[k]:g}, but its array "
                    f"form gives {array_form[k]:g}; correct one, or leave `values` and `slopes` to "
                    "PairLoss."
                ),
            )


def _check_short_cuts(loss: PairLoss) -> None:
    name, rng = type(loss).__name__, np.random.default_rng(0)
    p, q, b = rng.normal(size=8), rng.normal(size=20), np.resize([1.0, 2.0, 3.0], 20)
    margins = p[:, None] - q
    values, slopes = (form(margins.ravel()).reshape(margins.shape) for form in
                      (loss.values, loss.slopes))  # fmt: skip
    if loss.by_sorting:
        for what, total, terms in zip(("l", "l'"), loss.sums(p, q, b), (values, slopes), strict=True):  # fmt: skip  # noqa: E501
            _refuse(
                ~np.isclose(total, terms @ b, rtol=1e-9, atol=1e-9),
                lambda k, what=what, total=total, terms=terms: (
                    f"{name}.sums gives {total[k]:g} for the sum of b_j {what}(p_i - q_j) at p_i = "
                    f"{p[k]:g}, and all pairs give {(terms @ b)[k]:g}; correct it, or leave it out."
                ),
            )
    if loss.by_moments and not np.allclose(values, (loss.parameter - margins) ** 2):
        raise ValueError(
            f"{name} says that it is (parameter - margin)^2 (by_moments = True), which it is not; "
            "leave by_moments out."
        )


def check_comparison(comparison: Comparison, labels: Sequence[float] | None = None) -> int:
    """Check a comparison on all pairs of some labels; return how many ordered pairs count.

    Directions must be finite, the compiled function must agree with the Python one, and where the
    comparison is symmetric, c(y', y) must be -c(y, y').

    Examples
    --------
    >>> from pairlearn.comparisons import OppositeLabels
    >>> check_comparison(OppositeLabels(), [1.0, 1.0, -1.0])
    4
    """
    name, numbers = _need(Comparison, comparison), comparison.parameters
    default = (*np.arange(-4.0, 4.5, 0.5).tolist(), -0.0)
    tried = finite_numbers("labels", default if labels is None else labels).tolist()
    points = [(y, other, *numbers) for y in tried for other in tried]
    directions = [comparison.direction(*point) for point in points]
    turned = [comparison.direction(other, y, *numbers) for y, other, *_ in points]
    for (y, other, *_), way, back in zip(points, directions, turned, strict=True):
        if not math.isfinite(way):
            raise ValueError(
                f"{name}.direction is {way!r} at the labels ({y:g}, {other:g}); a direction is a "
                "finite number, 0 if the pair does not count."
            )
        if comparison.symmetric and way != -back and back == back:
            raise ValueError(
                f"{name} says that it is symmetric, but its direction is {way:g} for the labels "
                f"({y:g}, {other:g}) and {back:g} for the same in the other order; set "
                "symmetric = False or correct the function."
            )
    check_compiled(f"{name}.direction", comparison.direction, points)
    return int(np.count_nonzero(directions))


def check_schedule(schedule: Schedule, *, n_steps: int = 100_000) -> None:
    """Check a schedule: positive step sizes that do not depend on how they are asked for.

    They must be finite float64 numbers, the same in one go, in pieces and out of order, twice as
    large in ``scaled(2.0)``, and all equal if the schedule `is_constant`.

    Examples
    --------
    >>> from pairlearn import InverseSqrt
    >>> check_schedule(InverseSqrt(1.0), n_steps=10_000)
    """
    name = _need(Schedule, schedule)

    def sizes_of(schedule: Schedule, first: int, count: int) -> Vector:
        sizes = schedule.step_sizes(first, count)
        if getattr(sizes, "dtype", None) != np.float64 or np.shape(sizes) != (count,):
            raise ValueError(
                f"{name}.step_sizes({first}, {count}) is {getattr(sizes, 'dtype', type(sizes))} of "
                f"shape {np.shape(sizes)}; shape(steps) must return one float64 number a step."
            )
        return sizes

    sizes = sizes_of(schedule, 1, n_steps)
    _refuse(
        ~(np.isfinite(sizes) & (sizes > 0.0)),
        lambda k: (
            f"{name} steps by {float(sizes[k])!r} at step {k + 1}; step sizes must be "
            "positive and finite."
        ),
    )
    cuts = ((n_steps // 3, n_steps), (n_steps - 1, n_steps), (0, n_steps // 3), (0, 1))
    alone = "shape(steps) must depend on the steps alone"
    tried = [(alone, a, sizes_of(schedule, a + 1, b - a), sizes[a:b]) for a, b in cuts]
    double = sizes_of(schedule.scaled(2.0), 1, n_steps)
    tried.append(("scaled(2.0) must double each step", 0, double, 2.0 * sizes))
    if schedule.is_constant:
        equal = "is_constant, so all steps must be equal"
        tried.append((equal, 0, sizes, np.full(n_steps, sizes[0])))
    for what, first, found, expected in tried:
        _refuse(
            ~np.isclose(found, expected, rtol=1e-12, atol=0.0),
            lambda k, w=what, a=first, f=found, e=expected: (
                f"{name}: {w}; step {a + 1 + k} is {float(f[k])!r} instead of {float(e[k])!r}."
            ),
        )


def check_domain(
    domain: CoordinatewiseDomain,
    *,
    values: Sequence[float] | None = None,
    step_sizes: Sequence[float] = (0.0, 1e-3, 0.1, 0.5, 2.0),
) -> None:
    """Check a coordinatewise domain at points of the line.

    As for every projection and proximal step of a convex function, a larger coordinate must not
    end below a smaller one, and two coordinates must not move apart. A projection must not depend
    on the step size, and must not move a point twice. The compiled function must agree with the
    Python one.

    Examples
    --------
    >>> from pairlearn import NonNegative
    >>> check_domain(NonNegative())
    """
    name = _need(CoordinatewiseDomain, domain)
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
        near = np.array([0.0, 1e-6, 1e-4, 1e-2, -1e-6, -1e-4, -1e-2])
        values = [*np.linspace(-8.0, 8.0, 1025), -1e6, 1e6, *np.add.outer(kinks, near).ravel()]
    line, sizes = np.unique(finite_numbers("values", values)), finite_numbers("step_sizes", step_sizes)  # fmt: skip  # noqa: E501
    _refuse(sizes < 0.0, lambda k: f"step_sizes must not be negative, got {sizes[k]:g}.")
    first = domain.step(line, sizes[0])
    for eta in sizes:
        moved = domain.step(line, eta)

        def rule(wrong: Mask, what: str, eta: float = float(eta), moved: Vector = moved) -> None:
            _refuse(
                wrong,
                lambda k: (
                    f"{name} {what}: coordinate {line[k]:g} becomes {moved[k]:.6g} at step "
                    f"size {eta:g}; correct the function."
                ),
            )

        room = 1e-12 * (1.0 + np.abs(line))
        slack, gaps = room[1:] + room[:-1], np.diff(moved)
        rule(~np.isfinite(moved), "must give finite numbers")
        rule(gaps < -slack, "must keep the order of coordinates")
        rule(gaps > np.diff(line) + slack, "must not move coordinates apart")
        if domain.is_projection:
            rule(np.abs(moved - first) > room, "is a projection but depends on the step size")
            again = np.abs(domain.step(moved, eta) - moved)
            rule(again > room, "is a projection but moves a point twice")
        points = [(float(v), float(eta), *parameters) for v in line]
        check_compiled(f"{name}.proximal", domain.proximal, points)


def check_features(features: FeatureMap, X: ArrayLike | None = None) -> None:
    """Check a feature map by mapping examples.

    A fitted map must return finite rows of the requested type, each row by itself (the same in
    small blocks, in another order, after `state` and `from_state`, and from a sparse matrix), must
    not change X, and must keep its bounds.

    Examples
    --------
    >>> from pairlearn import Hats
    >>> check_features(Hats(n_knots=3))
    """
    import scipy.sparse

    name, rng = _need(FeatureMap, features), np.random.default_rng(0)
    block = rng.normal(size=(150, features.n_inputs or 4)) if X is None else np.array(X, dtype=float)  # fmt: skip  # noqa: E501
    fitted = features if features.is_fitted else features.fit(block, rng=0)
    if not fitted.is_fitted or fitted.n_outputs < 1:
        raise ValueError(f"{name}.fit must return a fitted map of one feature or more.")
    before = block.copy()
    whole = fitted.transform(block)
    if not np.array_equal(before, block):
        raise ValueError(f"{name} changes X; make a copy before writing.")
    for dtype in (np.float64, np.float32):
        mapped = fitted.transform(block, dtype=dtype)
        if mapped.shape != (len(block), fitted.n_outputs) or mapped.dtype != dtype:
            raise ValueError(
                f"{name}.transform must return {np.dtype(dtype)} of shape "
                f"{(len(block), fitted.n_outputs)}, got {mapped.dtype} of shape {mapped.shape}."
            )
        if not np.isfinite(mapped).all():
            raise ValueError(f"{name}.transform returned NaN or infinity for finite examples.")
    order = rng.permutation(len(block))
    parts = [fitted.transform(block[order[k : k + 7]]) for k in range(0, len(block), 7)]
    others = {
        "in blocks of 7 rows in another order": (np.concatenate(parts), whole[order]),
        "after state and from_state": (
            restored_map(fitted.state(), known=[type(fitted)]).transform(block), whole,
        ),
        "from a sparse matrix": (fitted.transform(scipy.sparse.csr_array(block)), whole),
    }  # fmt: skip
    for how, (mapped, expected) in others.items():
        if not np.allclose(mapped, expected, rtol=1e-6, atol=1e-8):
            raise ValueError(
                f"{name} maps a row differently {how}: a row must be mapped by itself. Learn from "
                "data in learn(X, rng), not in mapped(X)."
            )
    bounds, far = fitted.bounds(), whole
    if bounds.is_finite:
        far = np.concatenate([fitted.transform(block * scale) for scale in (1e-3, 1, 10, 1e3)])
    norm = float(np.sqrt((far**2).sum(axis=1)).max())
    if norm > bounds.norm * (1.0 + 1e-9):
        raise ValueError(f"{name}.bounds() promises the norm {bounds.norm:g}, got {norm:g}.")
    if far.min() < bounds.lower - 1e-9 or far.max() > bounds.upper + 1e-9:
        raise ValueError(
            f"{name}.bounds() promises numbers from {bounds.lower:g} to {bounds.upper:g}, got "
            f"{far.min():g} to {far.max():g}."
        )


def check_pairing(
    pairing: Pairing,
    y: ArrayLike | None = None,
    *,
    qid: ArrayLike | None = None,
    smallest_chunk: int = 1,
) -> None:
    """Check a pairing by drawing from it, in one go and in pieces.

    Offline, plans must have the requested length and name existing rows, the same seed must give
    the same pairs, and the law of a step must not depend on how the draws are cut: over 300 paths,
    the mean row, partner, number of partners, repetitions and return to the step before must agree
    (a sound pairing fails once in a million). On a stream the steps must be the same in one chunk,
    one by one and in ragged chunks.

    Examples
    --------
    >>> from pairlearn import PreviousExample
    >>> check_pairing(PreviousExample())
    """
    name = _need(Pairing, pairing)
    signs = np.where(np.random.default_rng(7).random(20) < 0.4, 1.0, -1.0)
    labels = signs if y is None else finite_numbers("y", y)
    if len(labels) < 2 or (qid is not None and np.shape(qid) != labels.shape):
        raise ValueError("y needs two examples or more, and qid a query for each of them.")

    def path(cuts: Iterable[int], seed: int) -> list[tuple[int, ...]]:
        source = pairing.offline(len(labels), np.random.default_rng(seed), labels.copy())
        steps: list[tuple[int, ...]] = []
        for count in cuts:
            plan = source.draw(count)
            check_plan(name, plan, len(labels), count)
            steps += _steps(pairing, plan)
        return steps

    if path([1, 7, 1000], 0) != path([1, 7, 1000], 0):
        raise ValueError(
            f"{name} draws different pairs from the same seed; use rng as the only source of "
            "randomness."
        )
    whole, pieces = (
        np.array([_facts(path(cuts, seed)) for seed in range(300)]) for cuts in ([6], [3, 1, 1, 1])
    )
    apart = np.abs(whole.mean(axis=0) - pieces.mean(axis=0))
    error = np.sqrt((whole.var(axis=0) + pieces.var(axis=0)) / 300)
    for step, fact in np.argwhere(apart > 6.0 * error + 1e-12):
        raise ValueError(
            f"{name} changes its law when drawn in pieces: {_FACTS[fact]} at step {step + 1} is "
            f"{whole.mean(axis=0)[step, fact]:.4g} on average in one draw and "
            f"{pieces.mean(axis=0)[step, fact]:.4g} in draws of 3, 1, 1 and 1 steps; let the "
            "source remember what the next draw depends on."
        )
    if pairing.has_online_form:
        repeats = smallest_chunk * max(3, -(-60 // len(labels)))
        groups = None if qid is None else np.tile(np.asarray(qid), repeats)
        _check_online(pairing, np.tile(labels, repeats), groups, smallest_chunk)


_FACTS = (
    "the row",
    "the mean partner",
    "the number of partners",
    "meeting itself",
    "the return of the example before",
    "the repetition of the step before",
)


def _facts(steps: list[tuple[int, ...]]) -> list[tuple[float, ...]]:
    before = [(-1,), *steps]
    return [
        (
            row,
            sum(met) / max(len(met), 1),
            len(met),
            row in met,
            last[0] in met,
            (row, *met) == last,
        )
        for (row, *met), last in zip(steps, before, strict=False)
    ]


def _steps(pairing: Pairing, plan: Any) -> list[tuple[int, ...]]:
    """Return the row of each step and the rows that it meets."""
    if not isinstance(plan, Plan):
        if pairing.one_pair_a_step:
            raise ValueError(
                f"{type(pairing).__name__} gives a SlotPlan; set one_pair_a_step = False."
            )
        ranges = zip(plan.offsets.tolist(), plan.offsets[1:].tolist(), strict=False)
        met = [plan.right[begin:stop].tolist() for begin, stop in ranges]
        return [(int(row), *rows) for row, rows in zip(plan.left, met, strict=True)]
    if plan.n_repeats != int(np.count_nonzero(plan.left == plan.right)):
        raise ValueError(
            f"{type(pairing).__name__} says that {plan.n_repeats} examples meet themselves, which "
            "is not so; leave out distinct=True."
        )
    return list(zip(plan.left.tolist(), plan.right.tolist(), strict=True))


def _check_online(pairing: Pairing, y: Vector, qid: Any, smallest: int) -> None:
    name, m = type(pairing).__name__, len(y)
    ragged = [smallest * size for size in (1, 5, 2, 1, 9)]
    cuts = ([m], [smallest] * (m // smallest), [*ragged, m - sum(ragged)])
    one, *others = (_stream(pairing, y, qid, sizes) for sizes in cuts)
    for other in others:
        for t, (step, again) in enumerate(zip(one, other, strict=False)):
            if step != again:
                raise ValueError(
                    f"{name} pairs a stream by its chunks: step {t + 1} of {m} examples is {step} "
                    f"in one chunk and {again} in smaller ones; let an example meet earlier ones "
                    "only, and keep every row that later ones may meet."
                )
        if len(one) != len(other):
            raise ValueError(
                f"{name} pairs a stream by its chunks: {len(one)} steps in one chunk and "
                f"{len(other)} in smaller ones."
            )


def _stream(pairing: Pairing, y: Vector, qid: Any, sizes: list[int]) -> list[tuple[int, ...]]:
    """Return the steps in the row numbers of the stream."""
    name, source = type(pairing).__name__, pairing.online(np.random.default_rng(0))
    known, steps, begin = np.empty(0, dtype=np.int64), [], 0
    for size in sizes:
        part = slice(begin, begin + size)
        if isinstance(source, GroupedSource):
            arrival = source.arrive_grouped(y[part], None if qid is None else qid[part])
        else:
            arrival = source.arrive(y[part].copy())
        check_plan(name, arrival.plan, len(known) + size)
        check_keep(name, np.asarray(arrival.keep), len(known) + size)
        known = np.concatenate([known, np.arange(begin, begin + size)])
        plan = _steps(pairing, arrival.plan)
        steps += [tuple(int(known[q]) if q >= 0 else q for q in step) for step in plan]
        known, begin = known[arrival.keep], begin + size
    return steps


def check_objective(
    objective: Objective, *, loss: PairLoss | None = None, tolerance: float = 1e-4
) -> None:
    """Check an objective on random scores and by training with it.

    With and without ties and weights, each derivative must lie between the differences of the
    value to the left and to the right. Multiplying all weights, or adding a number to all scores,
    must change nothing. Scores in the right order must cost less than in the reverse order, and the
    metric must be larger for them. If the objective is `convex`, the middle of two score vectors
    must not cost more than their mean.

    Examples
    --------
    >>> from pairlearn.solvers import PartialArea
    >>> check_objective(PartialArea(0.2))
    """
    from pairlearn.losses import SquaredHinge

    _need(Objective, objective)
    loss, rng = loss or SquaredHinge(), np.random.default_rng(0)
    objective.check_loss(loss)
    candidates = objective.candidates
    if not isinstance(candidates, tuple) or not all(c.candidates == (c,) for c in candidates):
        raise ValueError(
            f"{objective!r}.candidates is {candidates!r}; it must be a tuple of objectives that "
            "leave nothing to choose."
        )
    positive = np.arange(24) % 3 == 0
    right = np.where(positive, 1.0, -1.0) + 1e-3 * np.arange(24)
    if not objective.metric(positive, right) > objective.metric(positive, -right):
        raise ValueError(f"the metric of {objective!r} must be larger for the right order.")
    for candidate in candidates:
        scores, weight = rng.normal(size=24) + positive, rng.uniform(0.3, 2.0, 24)
        for s, w in ((scores, weight), (np.round(scores), None), (0.05 * scores, weight), (20.0 * scores, weight)):  # fmt: skip  # noqa: E501
            _check_gradient(candidate, candidate.of_scores(loss, positive, w), s, tolerance)
        value, gradient = candidate.of_scores(loss, positive, weight)(scores)
        for change, w, s in (
            ("all weights are multiplied by 3", 3.0 * weight, scores),
            ("a number is added to all scores", weight, scores + 5.0),
        ):
            again = candidate.of_scores(loss, positive, w)(s)
            if not math.isclose(again[0], value, rel_tol=1e-7) or not np.allclose(
                again[1], gradient, rtol=1e-6, atol=1e-9
            ):
                raise ValueError(
                    f"{candidate!r} changes from {value:.6g} to {again[0]:.6g}, or its gradient, "
                    f"if {change}; divide the weights of each class by their sum, and use "
                    "differences of scores."
                )
        evaluate = candidate.of_scores(loss, positive, None)
        if not evaluate(right)[0] < evaluate(-right)[0]:
            raise ValueError(f"{candidate!r} must be smaller for the right order of scores.")
        for a, b in 2.0 * rng.normal(size=(50 if candidate.convex else 0, 2, 24)):
            ends, middle = 0.5 * (evaluate(a)[0] + evaluate(b)[0]), evaluate(0.5 * (a + b))[0]
            if middle > ends + 1e-7 * (1.0 + abs(ends)):
                raise ValueError(
                    f"{candidate!r} is {middle:g} in the middle of two score vectors whose mean "
                    f"value is {ends:g}, so it is not convex; set convex = False in its class."
                )


def _check_gradient(objective: Objective, evaluate: Any, s: Vector, tolerance: float) -> None:
    before = s.copy()
    value, gradient = evaluate(s)
    if np.shape(gradient) != s.shape or not math.isfinite(value) or not np.array_equal(s, before):
        raise ValueError(
            f"of_scores of {objective!r} must return a finite number and a derivative for each "
            "score, and must not change the scores."
        )
    noise = 16.0 * float(np.finfo(float).eps) * abs(value) / _STEP
    room = tolerance * float(np.abs(gradient).max()) + noise
    for step, slope in zip(_STEP * np.eye(len(s)), gradient, strict=True):
        sides = ((value - evaluate(s - step)[0]) / _STEP, (evaluate(s + step)[0] - value) / _STEP)
        if not min(sides) - room <= slope <= max(sides) + room:
            raise ValueError(
                f"the gradient of {objective!r} is {slope:.6g} where its value changes by "
                f"{sides[0]:.6g} (left) and {sides[1]:.6g} (right); correct one of the two numbers "
                "that of_scores returns."
            )
