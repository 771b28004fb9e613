# SPDX-License-Identifier: BSD-3-Clause
"""Buffers against slow, literal transcriptions, and the laws of the reservoirs."""

import math

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

from pairlearn import (
    Ball,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    LinearScore,
    Logistic,
    PairwiseSGD,
    Problem,
    ReservoirBuffer,
    Square,
    WholeSpace,
    reference,
)
from pairlearn.pairings import AllPrevious, ClassReservoirs, SlotPlan
from pairlearn.pairings.plans import ZERO_NEGATIVE, ZERO_POSITIVE

#: Each statistical test below fails by chance with this probability (per parameter set).
FALSE_ALARM = 1e-6


def labels_of(n, seed=0, share=0.4):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < share, 1.0, -1.0)


def lists_of(plan):
    """Return (current, partners) for each step of a plan."""
    return [
        (int(plan.left[t]), plan.right[plan.offsets[t] : plan.offsets[t + 1]].tolist())
        for t in range(len(plan))
    ]


def arrivals(pairing, y, seed=0):
    """Return the steps of a stream that comes at once: rows are positions in the stream."""
    return pairing.online(np.random.default_rng(seed)).arrive(y)


# --------------------------------------------------------------------- literal transcriptions


def literal_fifo(size, n):
    buffer, steps = [], []
    for t in range(n):
        if t:
            steps.append((t, sorted(buffer)))
        buffer.append(t)
        if len(buffer) > size:
            buffer.pop(0)
    return steps


@pytest.mark.parametrize("size", [2, 3, 7, 50])
def test_fifo_meets_the_last_ones(size):
    found = lists_of(arrivals(FifoBuffer(size), np.zeros(20)).plan)
    assert [(t, sorted(met)) for t, met in found] == literal_fifo(size, 20)


def test_all_previous_is_fifo_without_end():
    y = np.zeros(15)
    all_of_them = arrivals(AllPrevious(), y).plan
    assert lists_of(all_of_them) == lists_of(arrivals(FifoBuffer(15), y).plan)
    np.testing.assert_array_equal(all_of_them.scale, 1.0 / np.arange(1, 15))


class Bits:
    """SplitMix64 in Python integers: the random numbers that the kernels use."""

    def __init__(self, state):
        self.state = int(state)

    def next(self):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    def below(self, n):
        return (self.next() * n) >> 64

    def uniform(self):
        return ((self.next() >> 11) + 1) * 2.0**-53


def literal_reservoir(size, n, bits):
    """RS-x as Kar et al. write it, with the gaps between replacements drawn as geometric."""
    buffer, steps = [], []
    for t in range(1, n + 1):
        example = t - 1
        if t > 1:
            steps.append((example, list(buffer)))
        if len(buffer) < size:
            buffer.append(example)
        elif t == size + 1:
            everyone = [*buffer, example]
            buffer = [everyone[bits.below(len(everyone))] for _ in range(size)]
        else:
            slot = -1
            while True:
                slot += 1 + int(np.log(bits.uniform()) / np.log1p(-1.0 / t))
                if slot >= size:
                    break
                buffer[slot] = example
    return steps


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_reservoir_is_the_published_algorithm(size):
    key = np.random.default_rng(3).integers(0, 2**64, size=1, dtype=np.uint64)[0]
    found = lists_of(arrivals(ReservoirBuffer(size), np.zeros(80), seed=3).plan)
    assert found == literal_reservoir(size, 80, Bits(key))


def literal_two_reservoirs(sizes, y, bits, *, weighting, zero_filled):
    fill = {1.0: ZERO_POSITIVE, -1.0: ZERO_NEGATIVE}
    buffers = {label: [fill[label]] * sizes[label] * zero_filled for label in (1.0, -1.0)}
    seen = {1.0: 0, -1.0: 0}
    steps, scales = [], []
    for t, label in enumerate(y):
        met = list(buffers[-label])
        if t:
            steps.append((t, met))
            weight = max(1.0, seen[-label] / sizes[-label])
            scales.append(weight if weighting == "oam" else 1.0 / max(len(met), 1))
        seen[label] += 1
        own, size = buffers[label], sizes[label]
        if seen[label] <= size:
            if zero_filled:
                own[seen[label] - 1] = t
            else:
                own.append(t)
        else:
            slot = bits.below(seen[label])
            if slot < size:
                own[slot] = t
    return steps, scales


@pytest.mark.parametrize("zero_filled", [False, True])
@pytest.mark.parametrize("weighting", ["mean", "oam"])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 5), (40, 2)])
def test_class_reservoirs_are_the_published_algorithm(sizes, weighting, zero_filled):
    y = labels_of(90)
    key = np.random.default_rng(4).integers(0, 2**64, size=1, dtype=np.uint64)[0]
    pairing = ClassReservoirs(*sizes, weighting=weighting, zero_filled=zero_filled)
    plan = arrivals(pairing, y, seed=4).plan
    steps, scales = literal_two_reservoirs(
        dict(zip((1.0, -1.0), sizes, strict=True)),
        y,
        Bits(key),
        weighting=weighting,
        zero_filled=zero_filled,
    )
    assert lists_of(plan) == steps
    np.testing.assert_array_equal(plan.scale, scales)


# --------------------------------------------------------------------------- laws of reservoirs


@pytest.mark.parametrize(("size", "n"), [(1, 12), (4, 12), (4, 5), (8, 20)])
def test_reservoir_slots_are_independent_uniform_draws(size, n):
    """Chi-square over the joint law of the first two slots (or the only one)."""
    n_runs, joint = 3_000, size > 1
    y = np.zeros(n)
    rng = np.random.default_rng(0)
    counts = np.zeros(n * n if joint else n)
    for _ in range(n_runs):
        keep = ReservoirBuffer(size).online(rng).arrive(y).keep
        counts[keep[0] * n + keep[1] if joint else keep[0]] += 1
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("size", "n"), [(1, 9), (3, 9)])
def test_class_reservoirs_are_uniform_samples_without_replacement(size, n):
    """Chi-square over all subsets: each is as likely as any other."""
    y = np.concatenate([np.ones(n), -np.ones(2)])
    rng = np.random.default_rng(1)
    seen = {}
    n_runs = 3_000
    for _ in range(n_runs):
        keep = ClassReservoirs(size, 2).online(rng).arrive(y).keep
        subset = tuple(sorted(keep[keep < n].tolist()))
        assert len(set(subset)) == size
        seen[subset] = seen.get(subset, 0) + 1
    n_subsets = math.comb(n, size)
    counts = np.array([*seen.values(), *[0] * (n_subsets - len(seen))])
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_offline_reservoir_draws_from_all_examples():
    plan = ReservoirBuffer(10).offline(7, np.random.default_rng(0)).draw(3000)
    counts = np.bincount(plan.left, minlength=7)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    assert plan.right.min() >= 0
    assert plan.right.max() == 6


# ------------------------------------------------------------------------------------ solutions

PAIRINGS = {
    "fifo": FifoBuffer(5),
    "all": AllPrevious(),
    "reservoir": ReservoirBuffer(7),
    "reservoir-1": ReservoirBuffer(1),
    "classes": ClassReservoirs(3, 20),
    "classes-oam": ClassReservoirs(3, 4, weighting="oam"),
    "classes-zero": ClassReservoirs(6, 3, weighting="oam", zero_filled=True),
}


def expected(loss, X, y, pairing, n_steps, *, seed, domain, step_size, weight=None):
    """Run the steps in plain NumPy; zero rows stand behind the examples."""
    source = pairing.offline(len(y), np.random.default_rng(seed), y)
    plan = source.draw(n_steps)
    n = len(y)
    rows = np.vstack([X, np.zeros((2, X.shape[1]))])
    labels = np.concatenate([y, [-1.0, 1.0]])
    weights = None if weight is None else np.concatenate([weight, [1.0, 1.0]])
    place = {ZERO_NEGATIVE: n, ZERO_POSITIVE: n + 1}
    partners = [(i, [place.get(q, q) for q in met]) for i, met in lists_of(plan)]
    # The reference takes the mean, the plan says what to multiply the sum with.
    steps = InverseSqrt(step_size).step_sizes(1, n_steps) * plan.scale * np.diff(plan.offsets)
    iterates = reference.pairwise_sgd(
        loss,
        rows,
        labels,
        partners=partners,
        step_sizes=steps,
        project=domain.project,
        w_start=np.zeros(X.shape[1]),
        example_weight=weights,
    )
    schedule = InverseSqrt(step_size).step_sizes(1, n_steps)
    return iterates[-1], reference.average_of(iterates, schedule), plan


@pytest.mark.parametrize("d", [1, 4, 9])
@pytest.mark.parametrize("loss", [Hinge(), Hinge(one_sided=True), Logistic(), Square()], ids=repr)
@pytest.mark.parametrize("name", PAIRINGS)
def test_solver_follows_the_plan(name, loss, d):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, d)), labels_of(40)
    domain, step_size, n_steps = Ball(0.5), 0.05, 90
    pairing = PAIRINGS[name]
    last, average, plan = expected(
        loss, X, y, pairing, n_steps, seed=1, domain=domain, step_size=step_size
    )
    solver = PairwiseSGD(pairing, InverseSqrt(step_size), domain)
    found = solver.solve(Problem(LinearScore(), loss), X, y, n_steps=n_steps, rng=1)
    np.testing.assert_allclose(found.w, last, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.average, average, rtol=1e-12, atol=1e-13)
    if not loss.one_sided and name != "classes-zero":
        met = plan.right[: plan.offsets[-1]]
        differs = y[np.repeat(plan.left, np.diff(plan.offsets))] != y[met]
        assert found.trace.n_gradients == np.count_nonzero(differs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=repr)
@pytest.mark.parametrize("name", PAIRINGS)
def test_sparse_rows(name, loss, weighted):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.4), labels_of(40)
    weight = rng.random(40) if weighted else None
    options = {"domain": Ball(0.5), "step_size": 0.05, "weight": weight}
    last, average, _ = expected(loss, X, y, PAIRINGS[name], 90, seed=1, **options)
    solver = PairwiseSGD(PAIRINGS[name], InverseSqrt(0.05), Ball(0.5))
    found = solver.solve(
        Problem(LinearScore(), loss),
        scipy.sparse.csr_array(X),
        y,
        n_steps=90,
        rng=1,
        example_weight=weight,
    )
    np.testing.assert_allclose(found.w, last, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.average, average, rtol=1e-12, atol=1e-13)


def test_sparse_stream():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(70, 4)) * (rng.random((70, 4)) < 0.5), labels_of(70)
    solver = PairwiseSGD(ReservoirBuffer(9), InverseSqrt(0.1), Ball(1.0))
    problem = Problem(LinearScore(), Hinge())
    dense = solver.start(problem, 4, rng=0).learn_many(X, y)
    sparse = solver.start(problem, 4, rng=0)
    for part in (slice(0, 30), slice(30, 70)):
        sparse.learn_many(scipy.sparse.csr_array(X[part]), y[part])
    np.testing.assert_allclose(sparse.w, dense.w, rtol=1e-12, atol=1e-14)
    assert sparse.n_gradients == dense.n_gradients


@pytest.mark.parametrize("name", PAIRINGS)
def test_example_weights(name):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(30, 3)), labels_of(30), rng.random(30)
    options = {"seed": 2, "domain": WholeSpace(), "step_size": 0.03}
    last, _, _ = expected(Hinge(), X, y, PAIRINGS[name], 50, weight=weight, **options)
    solver = PairwiseSGD(PAIRINGS[name], InverseSqrt(0.03))
    problem = Problem(LinearScore(), Hinge())
    found = solver.solve(problem, X, y, n_steps=50, rng=2, example_weight=weight)
    np.testing.assert_allclose(found.w, last, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", PAIRINGS)
def test_long_runs_cross_blocks(name, monkeypatch, block_steps):
    """A run that crosses blocks of steps equals one that does not."""
    from pairlearn.solvers.descent import pairwise_sgd

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), labels_of(40)
    last, average, _ = expected(
        Hinge(), X, y, PAIRINGS[name], 64, seed=1, domain=Ball(1.0), step_size=0.05
    )
    block_steps(24)
    solver = PairwiseSGD(PAIRINGS[name], InverseSqrt(0.05), Ball(1.0))
    monkeypatch.setattr(pairwise_sgd, "BLOCK", 64)
    found = solver.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=64, rng=1)
    np.testing.assert_allclose(found.w, last, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.average, average, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", PAIRINGS)
@pytest.mark.parametrize("cuts", [(), (1,), (1, 2), (13, 14, 60)])
def test_streams_do_not_depend_on_chunks(name, cuts):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(70, 4)), labels_of(70)
    solver = PairwiseSGD(PAIRINGS[name], InverseSqrt(0.1), Ball(1.0))
    problem = Problem(LinearScore(), Hinge())
    whole = solver.start(problem, 4, rng=0).learn_many(X, y)
    parts = solver.start(problem, 4, rng=0)
    for begin, end in zip((0, *cuts), (*cuts, 70), strict=True):
        parts.learn_many(X[begin:end], y[begin:end])
    assert whole.n_steps == parts.n_steps == 69
    np.testing.assert_array_equal(whole.w, parts.w)
    assert whole.n_gradients == parts.n_gradients


def test_three_labels():
    """With more than two labels everyone in the buffer is looked at."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 3, size=40).astype(float)
    options = {"seed": 1, "domain": Ball(0.5), "step_size": 0.05}
    last, _, _ = expected(Hinge(), X, y, ReservoirBuffer(100), 150, **options)
    solver = PairwiseSGD(ReservoirBuffer(100), InverseSqrt(0.05), Ball(0.5))
    found = solver.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=150, rng=1)
    np.testing.assert_allclose(found.w, last, rtol=1e-12, atol=1e-13)


def test_float32():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 6)).astype(np.float32), labels_of(40)
    last, _, _ = expected(
        Hinge(),
        X.astype(float),
        y,
        ReservoirBuffer(7),
        60,
        seed=1,
        domain=Ball(0.5),
        step_size=0.05,
    )
    solver = PairwiseSGD(ReservoirBuffer(7), InverseSqrt(0.05), Ball(0.5))
    found = solver.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=60, rng=1)
    np.testing.assert_allclose(found.w, last, rtol=1e-4)


# ------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("make", [FifoBuffer, ReservoirBuffer, ClassReservoirs])
def test_sizes_below_one(make):
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        make(0)


def test_class_reservoirs_refuse_other_labels():
    with pytest.raises(ValueError, match="labels -1 and \\+1"):
        arrivals(ClassReservoirs(2, 2), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="pass y"):
        ClassReservoirs(2, 2).offline(5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="weighting"):
        ClassReservoirs(weighting="sum")


def test_a_class_that_does_not_arrive_leaves_w_alone():
    solver = PairwiseSGD(ClassReservoirs(3, 3), InverseSqrt(0.1))
    stream = solver.start(Problem(LinearScore(), Hinge()), 2, rng=0)
    stream.learn_many(np.ones((5, 2)), np.ones(5))
    assert stream.n_steps == 4
    assert stream.n_gradients == 0
    np.testing.assert_array_equal(stream.w, 0.0)


def test_a_loss_that_returns_nan_is_named():
    from pairlearn import DivergenceError, PairLoss
    from pairlearn.losses import scalar

    class Broken(PairLoss):
        @scalar
        def value(score, y, y_partner, _):  # noqa: N805
            return 0.0

        @scalar
        def derivative(score, y, y_partner, _):  # noqa: N805
            return float("nan")

    solver = PairwiseSGD(FifoBuffer(3), InverseSqrt(0.1))
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(DivergenceError, match="NaN at step"):
        solver.solve(Problem(LinearScore(), Broken()), X, labels_of(20), n_steps=50, rng=0)


def test_plans_are_slot_plans():
    plan = FifoBuffer(3).offline(5, np.random.default_rng(0)).draw(4)
    assert isinstance(plan, SlotPlan)
    assert len(plan) == 4
