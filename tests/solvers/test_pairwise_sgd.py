# SPDX-License-Identifier: BSD-3-Clause
"""Runs on stored examples: arguments, bad input, callbacks, interrupts."""

import signal
import threading

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    Ball,
    Constant,
    DivergenceError,
    Hinge,
    InverseSqrt,
    LastIterate,
    LinearScore,
    Logistic,
    PairLoss,
    PairwiseSGD,
    PreviousExample,
    Problem,
    RandomPair,
    Square,
    WholeSpace,
    scalar,
)
from pairlearn.averaging import AVERAGINGS, DelayedLinear
from pairlearn.metrics import pair_risk
from pairlearn.pairings import Plan
from pairlearn.reference import average_of, pair_gradient
from pairlearn.solvers.descent import descent
from pairlearn.solvers.rows import as_rows

PROBLEM = Problem(LinearScore(), Hinge())


class NotANumber(PairLoss):
    """A loss with a bug."""

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        return 0.0

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        return np.nan if score > 0.2 or score < -0.2 else -1.0 if y > y_partner else 1.0


def sample(n=50, d=4):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.fixture
def small_blocks(block_steps):
    block_steps(32)


# ---------------------------------------------------------------------------------- arguments


def test_seeds_and_generators():
    X, y = sample()
    runs = [
        PairwiseSGD().solve(PROBLEM, X, y, n_steps=40, rng=rng).average
        for rng in (5, np.random.default_rng(5), 6)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    state = np.random.RandomState(0)
    legacy = [PairwiseSGD().solve(PROBLEM, X, y, n_steps=40, rng=state).average for _ in range(2)]
    assert not np.array_equal(*legacy), "a RandomState moves on"


def test_passes_are_rounded_up():
    X, y = sample()
    solution = PairwiseSGD().solve(PROBLEM, X, y, n_passes=0.51, rng=0)
    assert solution.trace.n_steps == 26
    same = PairwiseSGD().solve(PROBLEM, X, y, n_steps=26, rng=0)
    assert np.array_equal(solution.average, same.average)


def test_n_steps_and_n_passes_exclude_each_other():
    X, y = sample()
    for options in ({}, {"n_steps": 5, "n_passes": 1.0}):
        with pytest.raises(ValueError, match="Give one of n_steps and n_passes"):
            PairwiseSGD().solve(PROBLEM, X, y, **options)
    with pytest.raises(ValueError, match="n_steps must be at least 0, got -1"):
        PairwiseSGD().solve(PROBLEM, X, y, n_steps=-1)
    with pytest.raises(TypeError, match=r"n_steps must be a whole number, got 2\.5"):
        PairwiseSGD().solve(PROBLEM, X, y, n_steps=2.5)
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="n_passes must be a positive number"):
            PairwiseSGD().solve(PROBLEM, X, y, n_passes=bad)


def test_the_caller_s_arrays_stay_as_they_were():
    X, y = sample()
    weight, start = np.ones(50), np.full(4, 0.1)
    before = [a.copy() for a in (X, y, weight, start)]
    PairwiseSGD().solve(PROBLEM, X, y, n_steps=40, w_start=start, example_weight=weight)
    for array, copy in zip((X, y, weight, start), before, strict=True):
        assert np.array_equal(array, copy)


# ---------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_that_are_none(bad, sparse, dtype):
    X, y = sample()
    X = X.astype(dtype)
    X[3, 1] = bad
    given = scipy.sparse.csr_array(X) if sparse else X
    with pytest.raises(ValueError, match="X contains NaN or infinity; remove these rows, or fill"):
        PairwiseSGD().solve(PROBLEM, given, y, n_steps=5)
    X[3, 1] = 0.0
    y[2] = bad
    with pytest.raises(ValueError, match="y contains NaN or infinity; remove or correct"):
        PairwiseSGD().solve(PROBLEM, X, y, n_steps=5)


def test_finite_examples_whose_sum_is_not_are_accepted():
    X, y = sample()
    X[:3] = 1e308
    solution = PairwiseSGD(schedule=Constant(1e-300), domain=Ball(1.0)).solve(
        PROBLEM, X, y, n_steps=0
    )
    assert np.array_equal(solution.average, np.zeros(4))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("pairing", [PreviousExample(), RandomPair()])
def test_too_few_examples(n, pairing):
    X, y = sample()
    with pytest.raises(ValueError, match=f"Pairs need at least 2 examples, got {n}"):
        PairwiseSGD(pairing).solve(PROBLEM, X[:n], y[:n], n_steps=5)


def test_shapes():
    X, y = sample()
    with pytest.raises(ValueError, match=r"one number for each of the 50 rows of X, got .*\(49,\)"):
        PairwiseSGD().solve(PROBLEM, X, y[1:], n_steps=5)
    with pytest.raises(ValueError, match="two dimensions"):
        PairwiseSGD().solve(PROBLEM, X[:, 0], y, n_steps=5)
    with pytest.raises(ValueError, match=r"example_weight must have shape \(50,\), got \(3,\)"):
        PairwiseSGD().solve(PROBLEM, X, y, n_steps=5, example_weight=np.ones(3))
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="example_weight must hold finite numbers"):
            PairwiseSGD().solve(PROBLEM, X, y, n_steps=5, example_weight=np.full(50, bad))


def test_one_class_moves_nothing():
    X, _ = sample()
    solution = PairwiseSGD().solve(PROBLEM, X, np.ones(50), n_steps=100, rng=0)
    assert not solution.average.any()
    assert solution.trace.n_gradients == 0


@pytest.mark.parametrize("kind", ["dense64", "dense32", "csr"])
@pytest.mark.parametrize("blocks", [1, 5])
def test_divergence_names_step_and_cure(kind, blocks, small_blocks):
    X, y = sample()
    given = {"dense64": X, "dense32": X.astype(np.float32), "csr": scipy.sparse.csr_array(X)}[kind]
    # Step sizes that double the score at each active step: the end comes after some blocks.
    solver = PairwiseSGD(schedule=Constant(1e30 if blocks == 1 else 0.6))
    message = r"stopped being finite at step (\d+) with step sizes of about .*smaller step_size, "
    with pytest.raises(DivergenceError, match=message) as caught:
        solver.solve(Problem(LinearScore(), Square()), given, y, n_steps=20_000, rng=1)
    assert "scale the features" in str(caught.value)
    step = int(str(caught.value).split("at step ")[1].split()[0])
    # The run that ends one step earlier is fine, so the step is the right one.
    solution = solver.solve(Problem(LinearScore(), Square()), given, y, n_steps=step - 1, rng=1)
    assert np.isfinite(solution.w).all()
    with pytest.raises(DivergenceError, match=f"at step {step} "):
        solver.solve(Problem(LinearScore(), Square()), given, y, n_steps=step, rng=1)
    assert (step > 32) == (blocks > 1)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_loss_that_returns_nan(sparse):
    X, y = sample()
    given = scipy.sparse.csr_array(X) if sparse else X
    with pytest.raises(DivergenceError, match=r"NotANumber returned NaN at step \d+; check its"):
        PairwiseSGD().solve(Problem(LinearScore(), NotANumber()), given, y, n_steps=500, rng=0)


# ---------------------------------------------------------------------- callbacks, interrupts


def test_callbacks_see_every_block(small_blocks):
    X, y = sample()
    calls, models = [], []
    solution = PairwiseSGD().solve(
        PROBLEM,
        X,
        y,
        n_steps=100,
        rng=0,
        callbacks=[
            lambda run: calls.append((run.step, run.seconds, run.risk)),
            lambda run: models.append((run.average, run.w, run.n_gradients, run.cpu_seconds)),
        ],
    )
    assert [step for step, _, _ in calls] == [32, 64, 96, 100]
    assert all(np.diff([seconds for _, seconds, _ in calls]) >= 0)
    assert solution.trace.history == calls
    silent = PairwiseSGD().solve(PROBLEM, X, y, n_steps=100, rng=0)
    assert np.array_equal(solution.average, silent.average)
    assert silent.trace.history == []
    # On the way as at the end: the model is that of a run which ends there.
    for (step, _, _), (average, w, n_gradients, _) in zip(calls, models, strict=True):
        ended = PairwiseSGD().solve(PROBLEM, X, y, n_steps=step, rng=0)
        np.testing.assert_allclose(average, ended.average, rtol=1e-12)
        np.testing.assert_array_equal(w, ended.w)
        assert n_gradients == ended.trace.n_gradients
    assert sorted(cpu for *_, cpu in models) == [cpu for *_, cpu in models]


def test_pauses_say_when_callbacks_are_called(small_blocks):
    X, y = sample()
    steps = []
    solution = PairwiseSGD().solve(
        PROBLEM,
        X,
        y,
        n_steps=100,
        rng=0,
        pauses=[3, 50],
        callbacks=[lambda r: steps.append(r.step)],
    )
    assert steps == [3, 50, 100]
    assert solution.trace.n_steps == 100
    assert solution.trace.history == []
    for wrong in ([0], [5, 5], [7, 3], [101]):
        with pytest.raises(ValueError, match="pauses must be steps from 1 to 100 in increasing"):
            PairwiseSGD().solve(PROBLEM, X, y, n_steps=100, pauses=wrong)


def test_a_run_is_read_while_it_rests(small_blocks):
    X, y = sample()
    seen = []
    PairwiseSGD().solve(PROBLEM, X, y, n_steps=100, rng=0, callbacks=[seen.append])
    assert np.isfinite(seen[0].risk)
    assert seen[-1].average.shape == (X.shape[1],)
    with pytest.raises(RuntimeError, match="from step 32 to 100; read what you need while"):
        _ = seen[0].average


@pytest.mark.parametrize("sparse", [False, True])
def test_running_risk_estimates_the_pair_risk(sparse):
    """Standard error of 1024 pairs: tolerance of 5 of them, false-alarm rate below 1e-5."""
    X, y = sample(n=400)
    risks = []
    solver = PairwiseSGD(schedule=Constant(1e-9))
    start = np.array([1.0, 0.5, 0.0, 0.0])
    solver.solve(
        Problem(LinearScore(), Logistic()),
        scipy.sparse.csr_array(X) if sparse else X,
        y,
        n_steps=2000,
        rng=4,
        w_start=start,
        callbacks=[lambda running: risks.append(running.risk)],
    )
    # Losses of inactive pairs are 0, of active ones below 1.2: a standard deviation of at most 0.6.
    expected = pair_risk(Logistic(), X @ start, y)
    assert abs(risks[0] - expected) < 5 * 0.6 / np.sqrt(1024)


def test_an_error_in_a_callback_is_not_swallowed(small_blocks):
    X, y = sample()

    def stop(running):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        PairwiseSGD().solve(PROBLEM, X, y, n_steps=100, callbacks=[stop])


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("averaging", [None, DelayedLinear()])
def test_interrupt_in_a_callback_returns_the_average_so_far(small_blocks, kind, averaging):
    X, y = sample()
    given = scipy.sparse.csr_array(X) if kind == "csr" else X
    options = {} if averaging is None else {"averaging": averaging}
    solver = PairwiseSGD(**options)

    def interrupt(running):
        if running.step >= 64:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="Interrupted after 64 of 200 steps; the model is the"):
        solution = solver.solve(PROBLEM, given, y, n_steps=200, rng=0, callbacks=[interrupt])
    assert solution.trace.interrupted
    assert solution.trace.n_steps == 64
    expected = solver.solve(PROBLEM, given, y, n_steps=64, rng=0)
    assert np.array_equal(solution.w, expected.w)
    np.testing.assert_allclose(solution.average, expected.average, rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_ctrl_c_during_a_kernel_leaves_whole_blocks(monkeypatch, kind):
    """The signal arrives while machine code runs; steps and iterate still belong together."""
    X, y = sample()
    given = scipy.sparse.csr_array(X) if kind == "csr" else X
    solver = PairwiseSGD()
    expected = solver.solve(PROBLEM, given, y, n_steps=descent.BLOCK, rng=0)
    count = descent.Descent._count

    def count_after_signal(self, *steps):
        # As if the signal had arrived in the kernel that has just returned.
        signal.raise_signal(signal.SIGINT)
        count(self, *steps)

    monkeypatch.setattr(descent.Descent, "_count", count_after_signal)
    with pytest.warns(RuntimeWarning, match=f"Interrupted after {descent.BLOCK} of"):
        solution = solver.solve(PROBLEM, given, y, n_steps=10 * descent.BLOCK, rng=0)
    assert np.array_equal(solution.w, expected.w)
    assert np.allclose(solution.average, expected.average, rtol=1e-12)


def test_a_run_gives_the_handler_back():
    X, y = sample()
    PairwiseSGD().solve(PROBLEM, X, y, n_steps=9, rng=0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_runs_in_a_thread():
    X, y = sample()
    results = []
    thread = threading.Thread(
        target=lambda: results.append(PairwiseSGD().solve(PROBLEM, X, y, n_steps=40, rng=0))
    )
    thread.start()
    thread.join()
    expected = PairwiseSGD().solve(PROBLEM, X, y, n_steps=40, rng=0)
    assert np.array_equal(results[0].average, expected.average)


@pytest.mark.parametrize("first", [1.0, -1.0])
@pytest.mark.parametrize(
    ("storage", "dtype"),
    [(np.asarray, np.float64), (np.asarray, np.float32), (scipy.sparse.csr_array, np.float64)],
)
@pytest.mark.parametrize("d", [1, 5, 20, 200])
def test_the_hinge_stands_still_at_its_kink(d, storage, dtype, first):
    y = first * np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    X = np.zeros((6, d), dtype=dtype)
    X[:, d // 2] = 0.5 * y
    solver = PairwiseSGD(schedule=Constant(1.0), averaging=LastIterate())
    stream = solver.start(PROBLEM, d, dtype=dtype)
    # The first pair moves to a margin of exactly 1, where the slope is 0.
    w = stream.learn_many(storage(X), y).w
    assert w[d // 2] == 1.0
    assert np.count_nonzero(w) == 1


@pytest.mark.parametrize("averaging", ["step_size", "linear", "undelayed", "uniform"])
def test_steps_that_stand_still_count_in_the_average(averaging, block_steps):
    """The last two iterates have no weight yet, whether the last steps moved or stood still."""
    block_steps(8)
    X, y = sample()
    schedule = InverseSqrt(0.3)
    parts = descent.Parts(PROBLEM, schedule, WholeSpace(), AVERAGINGS[averaging]())
    run, rows = descent.Descent(parts, 4), as_rows(X)
    pairs, iterates = iter(range(len(y))), [np.zeros(4)]
    for n_steps, n_still in ((3, 1), (1, 2), (6, 11), (2, 1), (1, 5)):
        for _ in range(n_steps):
            i = next(pairs)
            left, right = (np.array([k], dtype=np.int32) for k in (i + 1, i))
            run.advance(rows, y, Plan(left, right))
            eta = schedule.step_sizes(len(iterates), 1)[0]
            gradient = pair_gradient(PROBLEM.loss, iterates[-1], X[i + 1], y[i + 1], X[i], y[i])
            iterates.append(iterates[-1] - eta * gradient)
        run.stand_still(n_still)
        iterates += [iterates[-1]] * n_still
        wanted = average_of(iterates, schedule.step_sizes(1, len(iterates) - 1), averaging)
        np.testing.assert_allclose(run.average, wanted, rtol=1e-12, atol=1e-15)
