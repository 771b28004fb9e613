# SPDX-License-Identifier: BSD-3-Clause
"""Every loss x averaging x domain x schedule x pairing x storage against the reference.

The reference stores every iterate and knows nothing of plans, blocks, owed weights or scaled
vectors. Its pairs are drawn again from the same seed.
"""

import functools
import itertools
import math

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    Ball,
    Box,
    Constant,
    ElasticNet,
    FifoBuffer,
    InverseSqrt,
    InverseTime,
    LastIterate,
    LinearScore,
    NonNegative,
    PairwiseSGD,
    PreviousExample,
    Problem,
    RandomPair,
    Tail,
    Uniform,
    WholeSpace,
)
from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.losses import LOSSES, Hinge, SmoothedHinge, Square
from pairlearn.reference import average_of, online_sgd, pairwise_sgd
from pairlearn.schedules import StronglyConvex
from pairlearn.solvers.descent import descent

SEED = 7
N_STEPS = 45

LOSS = {name: make() for name, make in LOSSES.items()} | {
    "hinge one-sided": Hinge(one_sided=True),
    "hinge wide": Hinge(margin=2.5),
    "square one-sided": Square(one_sided=True, margin=0.5),
    "smoothed hinge narrow": SmoothedHinge(width=0.01),
}
AVERAGING = {
    "step_size": DelayedByStepSize(),
    "linear": DelayedLinear(),
    "uniform": Uniform(),
    "tail:0.3": Tail(0.3),
    "last": LastIterate(),
}
SCHEDULE = {
    "constant": Constant(0.2),
    "inverse_sqrt": InverseSqrt(0.5),
    "inverse_time": InverseTime(2.0, offset=8.0),
    "strongly_convex": StronglyConvex(0.4),
}
DOMAIN = {
    "whole": WholeSpace(),
    "inactive": Ball(1e3),
    "active": Ball(0.12),
    "box": Box(-0.03, 0.05),
    "half line": Box(-math.inf, 0.02),
    "non-negative": NonNegative(),
    "elastic net": ElasticNet(0.15, 0.5),
}
#: The proximal steps in array form, written a second time.
PROXIMAL = {
    "box": lambda w, eta: np.clip(w, -0.03, 0.05),
    "half line": lambda w, eta: np.minimum(w, 0.02),
    "non-negative": lambda w, eta: np.where(w < 0, 0.0, w),
    "elastic net": lambda w, eta: np.sign(w) * np.maximum(abs(w) - 0.15 * eta, 0) / (1 + 0.5 * eta),
}
PAIRING = {"previous": PreviousExample(), "random": RandomPair(), "fifo": FifoBuffer(3)}
STORAGE = ("dense64", "dense32", "csr64", "csr32")
PAIRING_AND_STORAGE = list(itertools.product(PAIRING, STORAGE))
TOLERANCE = {"dense64": 1e-12, "dense32": 1e-4, "csr64": 1e-12, "csr32": 1e-12}


#: Losses that stand for all others where the domain is coordinatewise.
FEW = ("hinge", "logistic", "square one-sided")
LOSS_AND_DOMAIN = [
    (loss, domain)
    for loss, domain in itertools.product(LOSS, DOMAIN)
    if loss in FEW or domain not in PROXIMAL
]


def rules_for(loss, *turns):
    """Return the averaging rules that a loss meets in a case of these numbers.

    The hinge meets all of them, another loss half of them, and the other half in the next case.
    """
    rules = list(AVERAGING.items())
    return rules if loss == "hinge" else rules[sum(turns) % 2 :: 2]


def sample(n=30, d=6, *, seed=3):
    """Return examples of which a third of the entries is zero, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.67)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    # Both examples of some pairs are the same row, one row is empty.
    X[1], X[2] = X[0], 0.0
    return X, y


def stored(X, storage):
    """Return what the solver gets and what the reference gets."""
    real = np.float32 if storage.endswith("32") else np.float64
    X = X.astype(real)
    given = scipy.sparse.csr_array(X) if storage.startswith("csr") else X
    return given, X.astype(np.float64)


def redraw(pairing, n, n_steps, seed=SEED):
    """Return the pairs of a run again: (current, partners) for each step."""
    source = pairing.offline(n, np.random.default_rng(seed))
    partners, done = [], 0
    while done < n_steps:
        plan = source.draw(min(descent.BLOCK, n_steps - done))
        for t in range(len(plan)):
            if plan.offsets is None:
                others = [plan.right[t]]
            else:
                others = plan.right[plan.offsets[t] : plan.offsets[t + 1]]
            partners.append((plan.left[t], others))
        done += len(plan)
    return partners


def distance(found, expected):
    """Return the largest difference relative to the largest entry."""
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-300)


def acts_by(domain):
    """Return what the reference takes of a domain."""
    if domain in PROXIMAL:
        return {"proximal": PROXIMAL[domain]}
    return {"project": DOMAIN[domain].project}


@functools.lru_cache(maxsize=64)
def reference_run(*parts, n_steps, block, rounded, n=30, d=6, w_start=None, example_weight=None):
    """Return the iterates of the parts of these names; storages that round alike share them."""
    loss, pairing, schedule, domain = parts
    X, y = sample(n, d)
    if rounded:
        X = X.astype(np.float32).astype(np.float64)
    return pairwise_sgd(
        LOSS[loss],
        X,
        y,
        partners=redraw(PAIRING[pairing], n, n_steps),
        step_sizes=SCHEDULE[schedule].step_sizes(1, n_steps),
        w_start=np.zeros(d) if w_start is None else np.array(w_start),
        example_weight=None if example_weight is None else np.array(example_weight),
        **acts_by(domain),
    )


def expected_run(loss, storage, pairing, schedule, domain, n_steps, **options):
    """Return the iterates and step sizes of a run of the parts of these names."""
    options |= {"n_steps": n_steps, "block": descent.BLOCK, "rounded": storage.endswith("32")}
    iterates = reference_run(loss, pairing, schedule, domain, **options)
    return iterates, SCHEDULE[schedule].step_sizes(1, n_steps)


@pytest.mark.parametrize(("pairing", "storage"), PAIRING_AND_STORAGE)
@pytest.mark.parametrize(("loss", "domain"), LOSS_AND_DOMAIN)
def test_offline_run_agrees_with_reference(loss, domain, pairing, storage):
    X, y = sample()
    given, X = stored(X, storage)
    problem = Problem(LinearScore(), LOSS[loss])
    turns = (list(DOMAIN).index(domain), list(PAIRING).index(pairing), STORAGE.index(storage))
    for k, (scheduled, schedule) in enumerate(SCHEDULE.items()):
        iterates, step_sizes = expected_run(loss, storage, pairing, scheduled, domain, N_STEPS)
        norms = np.linalg.norm(iterates, axis=1)
        assert norms.max() > 0
        if domain == "active":
            assert np.isclose(norms, 0.12).any(), "the test means to hit the ball"
        if domain == "inactive":
            assert norms.max() < 1e3, "the test means not to hit the ball"
        if domain in PROXIMAL:
            pinned = {"box": 0.05, "half line": 0.02}.get(domain, 0.0)
            assert (np.array(iterates[1:]) == pinned).any(), "the test means to hit the border"
        for rule, averaging in rules_for(loss, k, *turns):
            solver = PairwiseSGD(PAIRING[pairing], schedule, DOMAIN[domain], averaging)
            run = functools.partial(solver.solve, problem, given, y, n_steps=N_STEPS, rng=SEED)
            solution = run()
            where = (schedule, rule)
            expected = average_of(iterates, step_sizes, rule)
            assert distance(solution.average, expected) < TOLERANCE[storage], where
            assert distance(solution.w, iterates[-1]) < TOLERANCE[storage], where
            assert solution.trace.n_steps == N_STEPS


@pytest.mark.parametrize("domain", ["whole", "inactive", "active", "box"])
@pytest.mark.parametrize("d", [7, 8, 9, 15, 16, 22, 31, 32, 33, 41, 50, 57, 64, 65])
@pytest.mark.parametrize("loss", ["hinge", "hinge one-sided"])
def test_rows_that_fit_into_registers_agree_with_reference(loss, d, domain):
    """The hinge on 8 to 64 doubles has a kernel of its own, in eight forms."""
    X, y = sample(d=d)
    problem = Problem(LinearScore(), LOSS[loss])
    schedule, rule = "inverse_sqrt", "step_size"
    iterates, step_sizes = expected_run(loss, "dense64", "previous", schedule, domain, N_STEPS, d=d)
    solver = PairwiseSGD(PreviousExample(), SCHEDULE[schedule], DOMAIN[domain], AVERAGING[rule])
    solution = solver.solve(problem, X, y, n_steps=N_STEPS, rng=SEED)
    expected = average_of(iterates, step_sizes, rule)
    assert distance(solution.average, expected) < TOLERANCE["dense64"]
    assert distance(solution.w, iterates[-1]) < TOLERANCE["dense64"]


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize(("loss", "domain"), LOSS_AND_DOMAIN)
def test_stream_agrees_with_reference(loss, domain, storage):
    X, y = sample()
    given, X = stored(X, storage)
    problem = Problem(LinearScore(), LOSS[loss])
    dtype = np.float32 if storage == "dense32" else np.float64
    turns = (list(DOMAIN).index(domain), STORAGE.index(storage))
    for k, schedule in enumerate(SCHEDULE.values()):
        step_sizes = schedule.step_sizes(1, len(y) - 1)
        iterates = online_sgd(
            LOSS[loss],
            X,
            y,
            step_sizes=step_sizes,
            **acts_by(domain),
            w_start=np.zeros(X.shape[1]),
        )
        for rule, averaging in rules_for(loss, k, *turns):
            solver = PairwiseSGD(PreviousExample(), schedule, DOMAIN[domain], averaging)
            if averaging.needs_horizon:
                with pytest.raises(ValueError, match="number of steps beforehand; for a stream"):
                    solver.start(problem, X.shape[1])
                continue
            stream = solver.start(problem, X.shape[1], dtype=dtype)
            stream.learn_many(given, y)
            expected = average_of(iterates, step_sizes, rule)
            assert distance(stream.average, expected) < TOLERANCE[storage], (schedule, rule)
            assert distance(stream.w, iterates[-1]) < TOLERANCE[storage]
            assert stream.n_steps == len(y) - 1
            assert stream.n_examples == len(y)


@pytest.mark.parametrize("storage", ["dense64", "dense32"])
@pytest.mark.parametrize("domain", DOMAIN)
def test_stream_with_buffer_agrees_with_reference(domain, storage):
    X, y = sample()
    given, X = stored(X, storage)
    loss, schedule = LOSS["logistic"], SCHEDULE["inverse_sqrt"]
    step_sizes = schedule.step_sizes(1, len(y) - 1)
    iterates = pairwise_sgd(
        loss,
        X,
        y,
        partners=[(t, list(range(max(t - 3, 0), t))) for t in range(1, len(y))],
        step_sizes=step_sizes,
        **acts_by(domain),
        w_start=np.zeros(X.shape[1]),
    )
    solver = PairwiseSGD(FifoBuffer(3), schedule, DOMAIN[domain])
    stream = solver.start(Problem(LinearScore(), loss), X.shape[1], dtype=given.dtype)
    stream.learn_many(given, y)
    expected = average_of(iterates, step_sizes)
    assert distance(stream.average, expected) < TOLERANCE[storage]


@pytest.mark.parametrize("domain", DOMAIN)
@pytest.mark.parametrize(("pairing", "storage"), PAIRING_AND_STORAGE)
def test_weights_and_starting_point(pairing, domain, storage):
    X, y = sample()
    given, X = stored(X, storage)
    rng = np.random.default_rng(5)
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], len(y))
    start = 0.03 * rng.normal(size=X.shape[1])
    schedule = SCHEDULE["inverse_sqrt"]
    for name in ("hinge", "logistic"):
        iterates, step_sizes = expected_run(
            name,
            storage,
            pairing,
            "inverse_sqrt",
            domain,
            N_STEPS,
            w_start=tuple(DOMAIN[domain].project(start)),
            example_weight=tuple(weight),
        )
        for rule, averaging in AVERAGING.items():
            solver = PairwiseSGD(PAIRING[pairing], schedule, DOMAIN[domain], averaging)
            run = functools.partial(
                solver.solve,
                Problem(LinearScore(), LOSS[name]),
                given,
                y,
                n_steps=N_STEPS,
                rng=SEED,
                w_start=start,
                example_weight=weight,
            )
            solution = run()
            expected = average_of(iterates, step_sizes, rule)
            assert distance(solution.average, expected) < TOLERANCE[storage], rule


def test_starting_point_outside_the_ball_is_projected():
    X, y = sample()
    solver = PairwiseSGD(domain=Ball(1.0))
    problem = Problem(LinearScore(), Hinge())
    solution = solver.solve(problem, X, y, n_steps=0, rng=0, w_start=np.full(6, 10.0))
    assert np.allclose(solution.average, np.full(6, 1 / np.sqrt(6)), rtol=1e-15)
    assert solution.trace.n_steps == 0


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("rule", AVERAGING)
@pytest.mark.parametrize("schedule", SCHEDULE)
def test_many_blocks_agree_with_reference(block_steps, schedule, rule, storage):
    """Blocks of 16 steps: averages, norms and cached arrays survive several borders."""
    block_steps(16)
    X, y = sample()
    given, X = stored(X, storage)
    problem = Problem(LinearScore(), LOSS["logistic"])
    for domain in ("inactive", "active", "box", "elastic net"):
        if domain == "elastic net" and storage.startswith("csr"):
            continue
        for n_steps in (16, 17, 79, 80, 81):
            iterates, step_sizes = expected_run(
                "logistic", storage, "previous", schedule, domain, n_steps
            )
            solver = PairwiseSGD(
                PreviousExample(), SCHEDULE[schedule], DOMAIN[domain], AVERAGING[rule]
            )
            solution = solver.solve(problem, given, y, n_steps=n_steps, rng=SEED)
            expected = average_of(iterates, step_sizes, rule)
            assert distance(solution.average, expected) < TOLERANCE[storage], (domain, n_steps)


@pytest.mark.parametrize(
    ("loss", "domain", "storages"),
    [
        ("hinge", "active", ("dense64", "dense32", "csr64")),
        ("logistic", "whole", ("dense64", "dense32", "csr64")),
        ("hinge", "box", ("dense64", "dense32", "csr64")),
        ("logistic", "elastic net", ("dense64", "dense32")),
    ],
)
def test_long_run_agrees_with_reference(loss, domain, storages):
    """A run longer than one block of its true length."""
    n_steps = descent.BLOCK + 500
    X, y = sample(n=200)
    X = X.astype(np.float32)  # one reference for all storages
    iterates, step_sizes = expected_run(
        loss, "dense32", "previous", "constant", domain, n_steps, n=len(y)
    )
    expected = average_of(iterates, step_sizes)
    solver = PairwiseSGD(PreviousExample(), SCHEDULE["constant"], DOMAIN[domain])
    for storage in storages:
        given, _ = stored(X, storage)
        problem = Problem(LinearScore(), LOSS[loss])
        solution = solver.solve(problem, given, y, n_steps=n_steps, rng=SEED)
        assert distance(solution.average, expected) < 10 * TOLERANCE[storage], storage


def test_counts_of_the_trace():
    X, y = sample()
    partners = redraw(PreviousExample(), len(y), N_STEPS)
    pairs = [(left, right[0]) for left, right in partners]
    solution = PairwiseSGD().solve(Problem(LinearScore(), Hinge()), X, y, n_steps=N_STEPS, rng=SEED)
    assert solution.trace.n_gradients == sum(y[i] != y[j] for i, j in pairs)
    assert solution.trace.n_repeats == sum(i == j for i, j in pairs)


def test_random_pairs_refuse_a_stream():
    with pytest.raises(ValueError, match=r"needs all examples at once; for a stream use Previous"):
        PairwiseSGD(RandomPair()).start(Problem(LinearScore(), Hinge()), 3)


def test_float32_streams_refuse_sparse_rows():
    X, y = sample()
    stream = PairwiseSGD().start(Problem(LinearScore(), Hinge()), X.shape[1], dtype=np.float32)
    with pytest.raises(TypeError, match="Sparse chunks need dtype=float64"):
        stream.learn_many(scipy.sparse.csr_array(X), y)


@pytest.mark.parametrize("container", ["csc_array", "coo_array", "csr_matrix", "lil_array"])
def test_any_sparse_container(container):
    X, y = sample()
    problem = Problem(LinearScore(), Hinge())
    dense = PairwiseSGD().solve(problem, X, y, n_steps=N_STEPS, rng=SEED)
    sparse = PairwiseSGD().solve(
        problem, getattr(scipy.sparse, container)(X), y, n_steps=N_STEPS, rng=SEED
    )
    assert distance(sparse.average, dense.average) < 1e-12


def test_duplicate_and_unsorted_entries_of_sparse_rows():
    data = np.array([1.0, 2.0, 3.0, -1.0, 0.5])
    messy = scipy.sparse.csr_array((data, [2, 0, 2, 1, 1], [0, 3, 4, 4, 5]), shape=(4, 3))
    labels = np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(LinearScore(), Hinge())
    before = messy.data.copy()
    sparse = PairwiseSGD().solve(problem, messy, labels, n_steps=N_STEPS, rng=SEED)
    dense = PairwiseSGD().solve(problem, messy.toarray(), labels, n_steps=N_STEPS, rng=SEED)
    assert distance(sparse.average, dense.average) < 1e-12
    assert np.array_equal(messy.data, before), "the caller's matrix stays as it was"


@pytest.mark.parametrize("layout", ["fortran", "strided", "integer", "list", "read-only"])
def test_any_dense_layout(layout):
    X, y = sample()
    X = np.rint(4 * X)
    given = {
        "fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "integer": X.astype(np.int64),
        "list": X.tolist(),
        "read-only": X.copy(),
    }[layout]
    if layout == "read-only":
        given.setflags(write=False)
    problem = Problem(LinearScore(), Hinge())
    expected = PairwiseSGD().solve(problem, X, y, n_steps=N_STEPS, rng=SEED)
    found = PairwiseSGD().solve(problem, given, y, n_steps=N_STEPS, rng=SEED)
    assert np.array_equal(found.average, expected.average)
