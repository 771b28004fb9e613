# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons: which pairs count and who should be ahead, with every loss, pairing and storage."""

# Directions take labels, not self.
# ruff: noqa: N805

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pairlearn import (
    Ball,
    Box,
    ConcordanceIndex,
    Constant,
    DistanceHinge,
    DivergenceError,
    FifoBuffer,
    Hinge,
    LinearScore,
    Logistic,
    MahalanobisScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    RandomPair,
    ReservoirBuffer,
    SquaredHinge,
    Sweep,
    scalar,
)
from pairlearn.comparisons import (
    COMPARISONS,
    Comparison,
    EarlierEvent,
    FirstAhead,
    GradeGap,
    OppositeLabels,
    signed_times,
)
from pairlearn.losses import LOSSES, GapWeighted
from pairlearn.pairings import GivenPairs, SlotPlan
from pairlearn.solvers import LocalizedSGD
from pairlearn.testing import check_comparison
from pairlearn.theory import advise_auc, auc_gradient_change, pl_constant

N, D = 40, 4
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D))
TIMES = np.round(RNG.exponential(2.0, size=N), 1)
EVENTS = RNG.random(N) < 0.6
LABELS = {
    "opposite_labels": np.where(RNG.random(N) < 0.4, 1.0, -1.0),
    "grade_gap": RNG.integers(0, 4, N).astype(float),
    "earlier_event": signed_times(EVENTS, TIMES),
    "first_ahead": np.zeros(N),
}


class ByOrder(OppositeLabels):
    """The default comparison as a foreign class: it takes the general path."""


class Rounded(Comparison):
    """A comparison that is no order: rock, paper, scissors."""

    @scalar
    def direction(y, y_partner, _first, _second):
        step = (y - y_partner) % 3.0
        if step == 1.0:
            return 0.5
        return -0.5 if step == 2.0 else 0.0


def plain(problem, rows, y, plans, step_size, radius, scales=None):
    """Return the last iterate: the formula of the module, pair by pair in plain Python."""
    loss, comparison, w = problem.loss, problem.comparison, np.zeros(D)
    for current, others, scale in plans:
        gradient = np.zeros(D)
        for other in others:
            c = comparison.direction(y[current], y[other], *comparison.parameters)
            if c == 0.0 or (loss.one_sided and c < 0.0):
                continue
            difference = rows[current] - rows[other]
            margin = math.copysign(1.0, c) * float(w @ difference)
            slope = loss.derivative(margin, 1.0, -1.0, loss.parameter)
            gradient += abs(c) * math.copysign(1.0, c) * slope * difference
        w = w - step_size * scale * gradient
        norm = np.linalg.norm(w)
        w = w * min(1.0, radius / norm) if norm > 0.0 else w
    return w


def steps_of(pairing, y, n_steps, seed):
    plan = pairing.offline(N, np.random.default_rng(seed), y).draw(n_steps)
    if isinstance(plan, SlotPlan):
        met = np.split(plan.right, plan.offsets[1:-1])
        return [
            (i, [q for q in rows if q >= 0], s)
            for i, rows, s in zip(plan.left.tolist(), met, plan.scale.tolist(), strict=True)
        ]
    return [(i, [j], 1.0) for i, j in zip(plan.left.tolist(), plan.right.tolist(), strict=True)]


@pytest.mark.parametrize("name", [*COMPARISONS])
def test_each_comparison_is_sound(name):
    comparison = COMPARISONS.make(name)
    assert check_comparison(comparison) > 0
    assert check_comparison(comparison, LABELS[name].tolist()) > 0
    assert COMPARISONS.name_of(comparison) == name


def _all_of_them():
    # Each of them is compiled. One comparison for each loss is thorough, all of them are slow.
    for row, loss in enumerate(LOSSES):
        for column, name in enumerate(COMPARISONS):
            few = loss == "logistic" and name in ("earlier_event", "grade_gap")
            thorough = row % len(COMPARISONS) == column
            mark = pytest.mark.thorough if thorough else pytest.mark.slow
            for pairing in (PreviousExample(), RandomPair(), FifoBuffer(5)):
                yield pytest.param(loss, name, pairing, marks=() if few else (mark,))


@pytest.mark.parametrize(("loss", "name", "pairing"), [*_all_of_them()])
def test_every_loss_works_with_every_comparison(loss, name, pairing):
    problem = Problem(LinearScore(), LOSSES.make(loss), COMPARISONS.make(name))
    y = LABELS[name]
    found = PairwiseSGD(pairing, Constant(0.1), Ball(3.0)).solve(problem, X, y, n_steps=60, rng=5)
    steps = steps_of(pairing, y, 60, 5)
    np.testing.assert_allclose(found.w, plain(problem, X, y, steps, 0.1, 3.0), atol=1e-12)


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X), X.astype(np.float32)])
@pytest.mark.parametrize("pairing", [RandomPair(), ReservoirBuffer(3)])
@pytest.mark.parametrize("weighed", [False, True])
def test_every_storage(rows, pairing, weighed):
    comparison = EarlierEvent(tau=3.0, weighed=weighed)
    problem, y = Problem(LinearScore(), Logistic(), comparison), LABELS["earlier_event"]
    found = PairwiseSGD(pairing, Constant(0.2), Ball(2.0)).solve(
        problem, rows, y, n_steps=80, rng=1
    )
    expected = plain(problem, X, y, steps_of(pairing, y, 80, 1), 0.2, 2.0)
    atol = 1e-5 if rows.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found.w, expected, atol=atol)


def test_weighed_pairs_weigh_their_earlier_time():
    comparison = EarlierEvent(weighed=True)
    found = comparison.directions(np.array([2.0, -5.0, 3.0]), np.array([-5.0, 2.0, 3.0]))
    assert found.tolist() == [2.0, -2.0, 0.0]
    assert check_comparison(comparison) > 0
    with pytest.raises(ValueError, match="does not state the largest weight"):
        Problem(LinearScore(), Logistic(), comparison).constants(norm_bound=1.0)


def test_one_sided_losses_take_one_direction_only():
    problem = Problem(LinearScore(), Hinge(one_sided=True), EarlierEvent())
    y, pairing = LABELS["earlier_event"], RandomPair()
    found = PairwiseSGD(pairing, Constant(0.1)).solve(problem, X, y, n_steps=80, rng=2)
    steps = steps_of(pairing, y, 80, 2)
    np.testing.assert_allclose(found.w, plain(problem, X, y, steps, 0.1, np.inf), atol=1e-12)
    both = Problem(LinearScore(), Hinge(), EarlierEvent())
    assert (
        found.trace.n_gradients
        < PairwiseSGD(pairing, Constant(0.1)).solve(both, X, y, n_steps=80, rng=2).trace.n_gradients
    )


def test_the_comparison_of_labels_is_what_losses_do_by_themselves():
    y = LABELS["opposite_labels"]
    for loss in (Logistic(), SquaredHinge()):
        for pairing in (PreviousExample(), FifoBuffer(4)):
            solver = PairwiseSGD(pairing, Constant(0.1))
            own = solver.solve(Problem(LinearScore(), loss), X, y, n_steps=500, rng=0)
            asked = solver.solve(Problem(LinearScore(), loss, ByOrder()), X, y, n_steps=500, rng=0)
            np.testing.assert_array_equal(own.average, asked.average)
            if pairing == PreviousExample():
                assert own.trace.n_gradients == asked.trace.n_gradients


def test_gaps_of_grades_are_the_weighted_loss():
    solver, y = PairwiseSGD(RandomPair(), Constant(0.05)), LABELS["grade_gap"]
    weighted = Problem(LinearScore(), GapWeighted(base=Logistic()))
    compared = Problem(LinearScore(), Logistic(), GradeGap())
    a, b = (solver.solve(p, X, y, n_steps=300, rng=0).average for p in (weighted, compared))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_comparison_need_not_be_an_order():
    assert check_comparison(Rounded(), [0.0, 1.0, 2.0]) == 6
    problem, y = Problem(LinearScore(), Hinge(), Rounded()), RNG.integers(0, 3, N).astype(float)
    found = PairwiseSGD(RandomPair(), Constant(0.1)).solve(problem, X, y, n_steps=80, rng=4)
    steps = steps_of(RandomPair(), y, 80, 4)
    np.testing.assert_allclose(found.w, plain(problem, X, y, steps, 0.1, np.inf), atol=1e-12)


def test_given_pairs_need_no_labels():
    problem = Problem(LinearScore(), Logistic(), FirstAhead())
    solver = PairwiseSGD(GivenPairs(), Constant(0.1))
    found = solver.solve(problem, X, np.zeros(N), n_steps=50, rng=0)
    steps = steps_of(GivenPairs(), np.zeros(N), 50, 0)
    np.testing.assert_allclose(found.w, plain(problem, X, np.zeros(N), steps, 0.1, np.inf))


@pytest.mark.parametrize("wide", [False, True])
def test_a_sweep_trains_what_single_runs_train(wide):
    rows = np.hstack([X, RNG.normal(size=(N, 80))]) if wide else X
    problem, y = Problem(LinearScore(), Logistic(), EarlierEvent()), LABELS["earlier_event"]
    sweep = Sweep((0.01, 0.1), (np.inf, 1.0)).solve(problem, rows, y, n_steps=300, rng=0)
    for k, (size, domain) in enumerate(((0.01, None), (0.1, Ball(1.0)))):
        given = {} if domain is None else {"domain": domain}
        one = PairwiseSGD(schedule=Constant(size), **given).solve(
            problem, rows, y, n_steps=300, rng=0
        )
        np.testing.assert_allclose(sweep.averages[k], one.average, rtol=1e-9, atol=1e-12)


def test_coordinatewise_domains_run_too():
    problem, y = Problem(LinearScore(), Logistic(), EarlierEvent()), LABELS["earlier_event"]
    solver = PairwiseSGD(RandomPair(), Constant(0.2), Box(0.0, 1.0))
    assert (solver.solve(problem, X, y, n_steps=200, rng=0).w >= 0.0).all()


@pytest.mark.parametrize("pairing", [PreviousExample(), FifoBuffer(3)])
def test_streams_do_not_depend_on_chunks(pairing):
    problem, y = Problem(LinearScore(), Logistic(), EarlierEvent()), LABELS["earlier_event"]
    solver = PairwiseSGD(pairing, Constant(0.1))
    whole = solver.start(problem, D, rng=0).learn_many(X, y)
    one, chunks = solver.start(problem, D, rng=0), solver.start(problem, D, rng=0)
    for x, label in zip(X, y, strict=True):
        one.learn_one(x, label)
    for begin in range(0, N, 7):
        chunks.learn_many(X[begin : begin + 7], y[begin : begin + 7])
        again = solver.start(problem, D, rng=0)
        again.restore(chunks.state())
        chunks = pickle.loads(pickle.dumps(again))
    for other in (one, chunks):
        np.testing.assert_allclose(whole.average, other.average, rtol=1e-9)
        assert whole.n_steps == other.n_steps
        assert whole.n_gradients == other.n_gradients


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.5])),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from([None, 1.0, 2.5]),
)
def test_the_earlier_event_counts_the_pairs_of_the_concordance_index(examples, tau):
    event, time = (np.array(column) for column in zip(*examples, strict=True))
    y, scores = signed_times(event, time), np.arange(len(event)) % 4
    comparison = EarlierEvent(tau)
    c = comparison.directions(y[:, None], y[None, :])
    np.testing.assert_array_equal(c, -c.T)
    if not (c > 0).any():
        with pytest.raises(ValueError, match="no pair can be compared"):
            ConcordanceIndex(tau=tau)(list(zip(event, time, strict=True)), scores)
        return
    gap = scores[:, None] - scores[None, :]
    expected = ((c > 0) * ((gap > 0) + 0.5 * (gap == 0))).sum() / (c > 0).sum()
    found = ConcordanceIndex(tau=tau)(list(zip(event, time, strict=True)), scores)
    assert found == pytest.approx(expected, abs=1e-12)


def test_constants_are_multiplied_by_the_largest_weight():
    own = Problem(LinearScore(), Logistic()).constants(norm_bound=1.0, radius=2.0)
    asked = Problem(LinearScore(), Logistic(), EarlierEvent())
    assert asked.constants(norm_bound=1.0, radius=2.0) == own
    with pytest.raises(ValueError, match=r"define GradeGap\.weight_bound"):
        Problem(LinearScore(), Logistic(), GradeGap()).constants(norm_bound=1.0)


def test_what_cannot_compare_refuses():
    problem, y = Problem(LinearScore(), Logistic(), EarlierEvent()), LABELS["earlier_event"]
    with pytest.raises(ValueError, match="compares labels by their order and not by Earlier"):
        LocalizedSGD(radius=1.0).solve(problem, X, y, rng=0)
    for about_auc in (
        lambda: advise_auc(problem, 100, norm_bound=1.0, radius=1.0),
        lambda: auc_gradient_change(problem, norm_bound=1.0),
        lambda: pl_constant(problem, X, np.sign(y), radius=1.0),
    ):
        with pytest.raises(ValueError, match="is about pairs of opposite labels"):
            about_auc()
    with pytest.raises(ValueError, match="use a loss of a margin"):
        Problem(MahalanobisScore(), DistanceHinge(), EarlierEvent())
    with pytest.raises(ValueError, match=r"such as GradeGap\(\)"):
        Problem(LinearScore(), GapWeighted(base=Hinge()), EarlierEvent())
    with pytest.raises(TypeError, match="must be a Comparison"):
        Problem(LinearScore(), Hinge(), EarlierEvent)


def test_a_direction_of_nan_is_an_error_and_no_lost_pair():
    class Lost(Comparison):
        @scalar
        def direction(y, y_partner, _first, _second):
            return math.nan if y > y_partner else 0.0

    with pytest.raises(ValueError, match="a direction is a finite number"):
        check_comparison(Lost())
    for one_sided in (False, True):
        problem = Problem(LinearScore(), Hinge(one_sided=one_sided), Lost())
        with pytest.raises(DivergenceError, match="returned NaN"):
            PairwiseSGD().solve(problem, X, LABELS["opposite_labels"], n_steps=50, rng=0)


def test_checks_name_the_fault():
    class Lopsided(Comparison):
        @scalar
        def direction(y, y_partner, _first, _second):
            return 1.0

    with pytest.raises(ValueError, match="set symmetric = False"):
        check_comparison(Lopsided())
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_comparison(OppositeLabels)
    with pytest.raises(ValueError, match="tau must be a finite time"):
        EarlierEvent(tau=math.inf)
    with pytest.raises(ValueError, match="got -1; add a constant to all times"):
        signed_times([True, False], [1.0, -1.0])
    with pytest.raises(ValueError, match="one event for each time"):
        signed_times([True], [1.0, 2.0])


def test_problems_are_pickled_with_their_comparison():
    problem = Problem(LinearScore(), Logistic(), EarlierEvent(2.0))
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    made = again.derivative
    assert made(0.3, 1.0, -4.0) == problem.derivative(0.3, 1.0, -4.0) != 0.0
    assert made.many(0.3, 1.0, -4.0) == pytest.approx(made(0.3, 1.0, -4.0), rel=1e-14)


@pytest.mark.parametrize("labels", [[], [math.nan], ["1"], 3.0])
def test_a_check_of_no_labels_is_none(labels):
    with pytest.raises(ValueError, match="labels must be a list of finite numbers, got"):
        check_comparison(OppositeLabels(), labels)
