# SPDX-License-Identifier: BSD-3-Clause
"""Laws of domains, schedules, averaging rules and pairings."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from pairlearn import (
    Ball,
    Constant,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    InverseTime,
    LastIterate,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    RandomPair,
    Tail,
    Uniform,
    WholeSpace,
)
from pairlearn.averaging import ByStepSize, DelayedByStepSize, DelayedLinear, DelayedPastBuffer
from pairlearn.kernels.plan import draw_indices, find_active
from pairlearn.reference import average_of
from pairlearn.schedules import StronglyConvex

vectors = arrays(np.float64, 4, elements=st.floats(-1e6, 1e6))
domains = st.one_of(st.just(WholeSpace()), st.floats(1e-3, 1e4).map(Ball))
schedules = st.sampled_from(
    [Constant(0.3), InverseSqrt(2.0), InverseTime(1.0, offset=3.0), StronglyConvex.of(alpha=0.5)]
)
RULES = {
    "step_size": DelayedByStepSize(),
    "linear": DelayedLinear(),
    "undelayed": ByStepSize(),
    "buffer:1": DelayedPastBuffer(1),
    "buffer:7": DelayedPastBuffer(7),
    "uniform": Uniform(),
    "tail:0.3": Tail(0.3),
    "tail:0.99": Tail(0.99),
}

# Chi-square tests below reject with probability 1e-6 if the law holds; the seeds are fixed, so
# that a test which passes once passes always.
FALSE_ALARM = 1e-6


def looks_uniform(counts):
    expected = counts.sum() / len(counts)
    statistic = ((counts - expected) ** 2).sum() / expected
    return statistic < chi2.isf(FALSE_ALARM, len(counts) - 1)


# ------------------------------------------------------------------------------------ domains


@given(domains, vectors)
def test_projection_is_feasible_and_idempotent(domain, w):
    projected = domain.project(w)
    assert np.linalg.norm(projected) <= domain.radius * (1 + 1e-15 * 4)
    again = domain.project(projected)
    assert np.allclose(again, projected, rtol=1e-15, atol=0)


@given(domains, vectors, vectors)
def test_projection_does_not_expand(domain, v, w):
    before = np.linalg.norm(v - w)
    after = np.linalg.norm(domain.project(v) - domain.project(w))
    assert after <= before * (1 + 1e-9) + 1e-9 * min(domain.radius, 1.0)


@given(st.floats(1e-3, 1e4), vectors, vectors)
def test_projection_is_the_closest_point(radius, w, other):
    domain = Ball(radius)
    inside = domain.project(other)
    gap = np.linalg.norm(w - domain.project(w))
    assert gap <= np.linalg.norm(w - inside) * (1 + 1e-12)


@given(vectors)
def test_points_inside_are_not_touched(w):
    assert domain_keeps(WholeSpace(), w)
    assert domain_keeps(Ball(1e7), w)


def domain_keeps(domain, w):
    return np.array_equal(domain.project(w), w)


def test_diameters():
    assert Ball(2.0).diameter == 4.0
    assert WholeSpace().diameter == math.inf


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "wide"])
def test_bad_radius(bad):
    with pytest.raises((ValueError, TypeError), match=r"radius must be a (positive )?number, got"):
        Ball(bad)


# ---------------------------------------------------------------------------------- schedules


@given(schedules, st.integers(1, 1000), st.integers(1, 50))
def test_schedule_does_not_depend_on_how_it_is_asked(schedule, first, count):
    together = schedule.step_sizes(1, first + count - 1)[first - 1 :]
    assert np.array_equal(schedule.step_sizes(first, count), together)


@given(schedules, st.floats(1e-3, 1e3))
def test_scaled_schedule(schedule, factor):
    expected = factor * schedule.step_sizes(1, 10)
    assert np.allclose(schedule.scaled(factor).step_sizes(1, 10), expected, rtol=1e-14)
    assert type(schedule.scaled(factor)) is type(schedule)


@given(schedules)
def test_step_sizes_are_positive_and_do_not_grow(schedule):
    steps = schedule.step_sizes(1, 1000)
    assert (steps > 0).all()
    assert (np.diff(steps) <= 0).all()
    assert schedule.is_constant == bool((np.diff(steps) == 0).all())


@pytest.mark.parametrize("schedule", [Constant, InverseSqrt, InverseTime, StronglyConvex])
@pytest.mark.parametrize("bad", [0.0, -0.1, math.nan, math.inf])
def test_bad_step_size(schedule, bad):
    with pytest.raises(ValueError, match=r"step_size must be a positive number.*choose step_size"):
        schedule(bad)


def test_bad_schedule_parameters():
    with pytest.raises(ValueError, match="offset must be at least 0, got -1"):
        InverseTime(1.0, offset=-1)
    with pytest.raises(ValueError, match="offset must be at least 0, got nan"):
        InverseTime(1.0, offset=math.nan)
    with pytest.raises(ValueError, match="alpha must be a positive number, got 0"):
        StronglyConvex.of(alpha=0)


# ---------------------------------------------------------------------------------- averaging


@given(st.sampled_from(sorted(RULES)), schedules, st.integers(1, 40))
def test_owed_weights_add_up_to_the_average(rule, schedule, n_steps):
    """Weights by iterate, as a kernel pays them, give the reference's average of unit vectors."""
    averaging = RULES[rule]
    weights = np.zeros(n_steps + 1)
    weights[0] = averaging.at_start(schedule)
    weights[:-1] += averaging.owed(schedule, 1, n_steps, horizon=n_steps)
    weights[-2] -= averaging.paid_early(schedule, n_steps)
    weights[-1] += averaging.owed_to_last(n_steps)
    expected = average_of(list(np.eye(n_steps + 1)), schedule.step_sizes(1, n_steps), rule)
    assert np.allclose(weights / weights.sum(), expected, rtol=1e-13, atol=1e-15)


@given(st.sampled_from(sorted(RULES)), schedules, st.integers(1, 30), st.integers(1, 30))
def test_owed_weights_do_not_depend_on_how_they_are_asked(rule, schedule, first, count):
    horizon = 60
    averaging = RULES[rule]
    whole = averaging.owed(schedule, 1, horizon, horizon=horizon)
    part = averaging.owed(schedule, first, count, horizon=horizon)
    assert np.array_equal(part, whole[first - 1 : first - 1 + count])


def test_rules_that_follow_the_schedule_say_so():
    for averaging in [*RULES.values(), LastIterate()]:
        owed = averaging.owed(Constant(0.5), 2, 50, horizon=51)
        assert not averaging.follows_schedule or (owed == owed[0]).all()
    assert not DelayedLinear().follows_schedule


def test_a_buffer_of_one_has_the_paper_s_average():
    w = [
        PairwiseSGD(averaging=rule).solve(
            Problem(LinearScore(), Hinge()), np.eye(4), [1, -1, 1, -1], n_steps=50, rng=0
        )
        for rule in (DelayedByStepSize(), DelayedPastBuffer(1))
    ]
    np.testing.assert_allclose(w[0].average, w[1].average, rtol=1e-13)


def test_bad_buffer_of_an_average():
    with pytest.raises(ValueError, match="buffer_size"):
        DelayedPastBuffer(0)
    with pytest.raises(ValueError, match="takes its size from a pairing"):
        DelayedPastBuffer().owed(Constant(1.0), 1, 3)


@given(st.integers(1, 12), schedules, st.integers(1, 40))
def test_what_was_paid_too_early_is_taken_back(size, schedule, n_steps):
    """On a stream every iterate is paid when it is left, and the last s give it back."""
    averaging = DelayedPastBuffer(size)
    weights = np.zeros(n_steps + 1)
    weights[0] = averaging.at_start(schedule)
    weights[:-1] += averaging.owed(schedule, 1, n_steps)
    newest = np.maximum(np.arange(n_steps - size, n_steps), 0)
    np.subtract.at(weights, newest, averaging.taken_back(schedule, n_steps))
    iterates, steps = list(np.eye(n_steps + 1)), schedule.step_sizes(1, n_steps)
    expected = average_of(iterates, steps, f"buffer:{size}")
    assert np.allclose(weights / weights.sum(), expected, rtol=1e-12, atol=1e-14)


def test_bad_tail():
    for bad in (0.0, 1.0, -1.0, 2.0, math.nan):
        with pytest.raises(ValueError, match="fraction must lie strictly between 0 and 1"):
            Tail(bad)
    with pytest.raises(ValueError, match="Tail averaging needs the number of steps"):
        Tail(0.5).owed(Constant(1.0), 1, 3)


# ----------------------------------------------------------------------------------- pairings


@pytest.mark.parametrize("n", [1, 2, 3, 10, 97, 1000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_are_uniform(n, dtype):
    out = np.empty(200 * n, dtype=dtype)
    draw_indices(np.uint64(12345 + n), n, out)
    assert out.min() >= 0
    assert out.max() < n
    if n > 1:
        assert looks_uniform(np.bincount(out, minlength=n))


def test_indices_of_the_largest_range_are_uniform():
    n = 2**31
    out = np.empty(200_000, dtype=np.int32)
    draw_indices(np.uint64(5), n, out)
    assert out.min() >= 0
    assert looks_uniform(np.bincount(out.astype(np.int64) * 1000 // n, minlength=1000))


def test_neighbouring_indices_are_independent():
    out = np.empty(200_001, dtype=np.int32)
    draw_indices(np.uint64(99), 10, out)
    assert looks_uniform(np.bincount(10 * out[1:] + out[:-1], minlength=100))


def test_keys_give_different_paths():
    paths = np.empty((200, 500), dtype=np.int32)
    for key, path in enumerate(paths):
        draw_indices(np.uint64(key), 10, path)
    # Equal entries of neighbouring paths: a tenth of them.
    equal = int((paths[1:] == paths[:-1]).sum())
    total = paths[1:].size
    assert looks_uniform(np.bincount((paths[1:] - paths[:-1]).ravel() % 10, minlength=10))
    assert abs(equal - total / 10) < 6 * math.sqrt(total * 0.09)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_random_pairs_are_uniform_over_distinct_pairs(n):
    source = RandomPair().offline(n, np.random.default_rng(1))
    plan = source.draw(100_000)
    assert plan.n_repeats == 0
    counts = np.bincount(n * plan.left.astype(np.int64) + plan.right, minlength=n * n)
    counts = counts.reshape(n, n)
    assert not np.diag(counts).any()
    assert looks_uniform(counts[~np.eye(n, dtype=bool)])


@given(st.integers(2, 50), st.integers(0, 2**32), st.lists(st.integers(1, 20), max_size=5))
def test_random_pairs_never_pair_an_example_with_itself(n, seed, sizes):
    source = RandomPair().offline(n, np.random.default_rng(seed))
    for size in sizes:
        plan = source.draw(size)
        assert (plan.left != plan.right).all()
        assert min(plan.left.min(), plan.right.min()) >= 0
        assert max(plan.left.max(), plan.right.max()) < n


@given(st.integers(1, 50), st.integers(1, 4), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_paths_continue_from_draw_to_draw(n, size, counts):
    source = FifoBuffer(size).offline(n, np.random.default_rng(0))
    path, met = [], []
    for count in counts:
        plan = source.draw(count)
        assert len(plan) == count
        offsets = np.arange(count + 1) if plan.offsets is None else plan.offsets
        met += [list(plan.right[a:b]) for a, b in itertools.pairwise(offsets)]
        path += list(plan.left)
    path = met[0] + path
    for t, others in enumerate(met, start=1):
        assert sorted(others) == sorted(path[max(t - size, 0) : t])


def test_previous_example_is_a_buffer_of_one():
    plans = [
        pairing.offline(10, np.random.default_rng(3)).draw(100)
        for pairing in (PreviousExample(), FifoBuffer(1))
    ]
    assert np.array_equal(plans[0].left, plans[1].left)
    assert np.array_equal(plans[0].right, plans[1].right)
    assert plans[0].n_repeats == int((plans[0].left == plans[0].right).sum()) > 0


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 4))
def test_arrivals_meet_the_last_ones_whatever_the_chunks(sizes, size):
    source = FifoBuffer(size).online(np.random.default_rng(0))
    buffer, seen, met = [], [], []
    for m in sizes:
        arrival = source.arrive(np.zeros(m))
        rows = buffer + list(range(len(seen), len(seen) + m))
        plan = arrival.plan
        offsets = np.arange(len(plan) + 1) if plan.offsets is None else plan.offsets
        for t, i in enumerate(plan.left):
            met.append((rows[i], sorted(rows[q] for q in plan.right[offsets[t] : offsets[t + 1]])))
        seen += list(range(len(seen), len(seen) + m))
        buffer = [rows[k] for k in arrival.keep]
    expected = [(t, list(range(max(t - size, 0), t))) for t in range(1, len(seen))]
    assert met == expected


@pytest.mark.parametrize("bad", [0, -1])
def test_bad_buffer_size(bad):
    with pytest.raises(ValueError, match=f"buffer_size must be at least 1, got {bad}"):
        FifoBuffer(bad)
    with pytest.raises(TypeError, match=r"buffer_size must be a whole number, got 1\.5"):
        FifoBuffer(1.5)


@given(
    arrays(np.float64, 6, elements=st.sampled_from([-1.0, 1.0, 2.0])),
    st.booleans(),
    st.booleans(),
)
def test_active_pairs(y, one_sided, all_pairs):
    left, right = (index.ravel().astype(np.int32) for index in np.indices((6, 6)))
    active = np.empty(37, dtype=np.int32)
    count = find_active(left, right, y, one_sided, all_pairs, active)
    wanted = (y[left] > y[right]) if one_sided else (y[left] != y[right])
    expected = np.flatnonzero(wanted | all_pairs)
    assert np.array_equal(active[:count], expected)
