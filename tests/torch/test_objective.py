# SPDX-License-Identifier: BSD-3-Clause
"""A function of one's own in Algorithms 1, 2 and 4, against the reference in plain NumPy."""

import copy
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from pairlearn import (
    Ball,
    Box,
    Constant,
    DivergenceError,
    ElasticNet,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    LastIterate,
    LinearScore,
    Logistic,
    PairwiseSGD,
    PreviousExample,
    Problem,
    Tail,
    Uniform,
    WholeSpace,
)
from pairlearn.averaging import DelayedByStepSize, DelayedLinear, DelayedPastBuffer
from pairlearn.pairings import ClassReservoirs
from pairlearn.reference import average_of, localized_sgd, online_sgd, pairwise_sgd
from pairlearn.schedules import StronglyConvex
from pairlearn.solvers import LocalizedSGD
from pairlearn.solvers.descent.localized import localized_stages
from pairlearn.torch import PairwiseObjective

RULES = {
    "step_size": DelayedByStepSize(),
    "linear": DelayedLinear(),
    "uniform": Uniform(),
    "tail:0.5": Tail(0.5),
    "last": LastIterate(),
}


def logistic(w, x, y, x_partner, y_partner):
    margin = torch.sign(y - y_partner) * (w @ (x - x_partner))
    return torch.nn.functional.softplus(-margin) * (y != y_partner)


def hinge(w, x, y, x_partner, y_partner):
    if y == y_partner:
        return torch.zeros(())
    return torch.relu(1.0 - torch.sign(y - y_partner) * (w @ (x - x_partner)))


@pytest.fixture
def examples(rng):
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] + rng.normal(size=40) > 0, 1.0, -1.0)
    return X, y, torch.from_numpy(X), torch.from_numpy(y)


@pytest.mark.parametrize(
    ("schedule", "domain", "rule"),
    [
        (Constant(0.2), WholeSpace(), "step_size"),
        (InverseSqrt(0.5), Ball(0.8), "step_size"),
        (StronglyConvex(1.0), Ball(0.5), "linear"),
        (Constant(0.2), Box(-0.3, 0.4), "uniform"),
        (Constant(0.2), ElasticNet(0.05, 0.1), "last"),
        (InverseSqrt(0.5), Ball(2.0), "tail:0.5"),
    ],
)
@pytest.mark.parametrize(("f", "loss"), [(logistic, Logistic()), (hinge, Hinge())])
def test_algorithm_1(schedule, domain, rule, f, loss, examples):
    X, y, X_t, y_t = examples
    plan = PreviousExample().offline(40, np.random.default_rng(5)).draw(120)
    steps = schedule.step_sizes(1, 120)
    path = {"project": domain.project}
    if isinstance(domain, ElasticNet):
        path = {"proximal": domain.step}
    iterates = pairwise_sgd(
        loss,
        X,
        y,
        partners=[(i, [j]) for i, j in zip(plan.left, plan.right, strict=True)],
        step_sizes=steps,
        w_start=np.zeros(3),
        **path,
    )
    objective = PairwiseObjective(f, schedule=schedule, domain=domain, averaging=RULES[rule])
    found = objective.solve(
        X_t, y_t, w_start=torch.zeros(3, dtype=torch.float64), n_steps=120, rng=5
    )
    np.testing.assert_allclose(found.w, iterates[-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        found.average, average_of(iterates, steps, rule), rtol=1e-12, atol=1e-14
    )
    assert found.trace.n_steps == found.trace.n_gradients == 120
    assert found.trace.n_repeats == plan.n_repeats


@pytest.mark.parametrize("pairing", [FifoBuffer(4), ClassReservoirs(3)])
def test_buffers_are_those_of_the_compiled_solver(pairing, examples):
    X, y, X_t, y_t = examples
    parts = {"pairing": pairing, "schedule": Constant(0.2), "domain": Ball(2.0)}
    wanted = PairwiseSGD(**parts).solve(Problem(LinearScore(), Logistic()), X, y, n_steps=80, rng=2)
    found = PairwiseObjective(logistic, **parts).solve(
        X_t, y_t, w_start=torch.zeros(3, dtype=torch.float64), n_steps=80, rng=2
    )
    np.testing.assert_allclose(found.w, wanted.w, rtol=1e-10)
    np.testing.assert_allclose(found.average, wanted.average, rtol=1e-10)


def test_algorithm_2_in_any_chunks_and_resumed(examples):
    X, y, X_t, y_t = examples
    schedule = InverseSqrt(0.5)
    steps = schedule.step_sizes(1, 39)
    iterates = online_sgd(
        Logistic(), X, y, step_sizes=steps, project=Ball(0.9).project, w_start=np.zeros(3)
    )
    objective = PairwiseObjective(logistic, schedule=schedule, domain=Ball(0.9))
    start = torch.zeros(3, dtype=torch.float64)
    whole = objective.start(start).learn_many(X_t, y_t)
    np.testing.assert_allclose(whole.w, iterates[-1], rtol=1e-12)
    np.testing.assert_allclose(whole.average, average_of(iterates, steps), rtol=1e-12)
    first = objective.start(start)
    for begin, end in ((0, 1), (1, 8), (8, 8), (8, 21)):
        first.learn_many(X_t[begin:end], y_t[begin:end])
    second = copy.deepcopy(first)
    second.learn_many(X_t[21:], y_t[21:])
    assert torch.equal(second.w, whole.w)
    assert torch.equal(second.average, whole.average)
    assert (second.n_examples, second.n_steps) == (40, 39)


def test_algorithm_4(examples):
    X, y, X_t, y_t = examples
    rng = np.random.default_rng(3)
    order, stages = rng.permutation(40), []
    for stage in localized_stages(40, locality=0.7, n_passes=1.5):
        members, order = order[: stage.n_examples], order[stage.n_examples :]
        plan = PreviousExample().offline(stage.n_examples, rng).draw(stage.n_steps)
        pairs = list(zip(members[plan.left], members[plan.right], strict=True))
        stages.append((pairs, stage.locality, stage.n_examples))
    wanted = localized_sgd(
        Logistic(), X, y, stages=stages, project=Ball(1.0).project, w_start=np.ones(3)
    )
    found = PairwiseObjective(logistic, domain=Ball(1.0)).solve_localized(
        X_t, y_t, w_start=torch.ones(3, dtype=torch.float64), locality=0.7, n_passes=1.5, rng=3
    )
    np.testing.assert_allclose(found.average, wanted[-1], rtol=1e-12)
    compiled = LocalizedSGD(1.0, locality=0.7, n_passes=1.5).solve(
        Problem(LinearScore(), Logistic()), X, y, rng=3, w_start=np.ones(3)
    )
    np.testing.assert_allclose(found.average, compiled.average, rtol=1e-10)


def test_a_network_by_names(examples):
    """The parameters of a module as a mapping; a squared hinge of scores that are not linear."""
    _, _, X, y = examples
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def f(w, x, y, x_partner, y_partner):
        s = torch.func.functional_call(network, w, (torch.stack([x, x_partner]),))[:, 0]
        margin = torch.sign(y - y_partner) * (s[0] - s[1])
        return torch.relu(1.0 - margin) ** 2 * (y != y_partner)

    def risk(w):
        s = torch.func.functional_call(network, w, (X.float(),))[:, 0].detach()
        gaps = s[y > 0][:, None] - s[y < 0][None, :]
        return float((torch.relu(1 - gaps) ** 2).mean())

    start = {name: p.detach() for name, p in network.named_parameters()}
    solution = PairwiseObjective(f, schedule=Constant(0.05)).solve(
        X.float(), y, w_start=start, n_steps=600, rng=0
    )
    assert {k: v.shape for k, v in solution.average.items()} == {
        k: v.shape for k, v in start.items()
    }
    assert solution.average["0.weight"].dtype == torch.float32
    assert risk(solution.average) < 0.7 * risk(start)


def test_callbacks_see_the_run(examples):
    _, _, X, y = examples
    seen = []
    PairwiseObjective(logistic).solve(
        X, y, w_start=torch.zeros(3, dtype=torch.float64), n_steps=10, rng=0,
        callbacks=[lambda run: seen.append((run.step, run.w.shape, run.average.shape))],
    )  # fmt: skip
    assert seen == [(10, (3,), (3,))]


@pytest.mark.parametrize("pairing", [PreviousExample(), FifoBuffer(4)])
def test_ctrl_c_ends_a_run_early(pairing, examples):
    _, _, X_t, y_t = examples
    count = 0

    def f(*pair):
        nonlocal count
        count += 1
        if count == 300:
            signal.raise_signal(signal.SIGINT)
        return logistic(*pair)

    start = torch.zeros(3, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="Interrupted after"):
        found = PairwiseObjective(f, pairing=pairing).solve(
            X_t, y_t, w_start=start, n_steps=5000, rng=0
        )
    assert found.trace.interrupted
    assert found.trace.n_steps <= 512
    # The path of a run that is cut short is the beginning of the whole one.
    path = []
    PairwiseObjective(logistic, pairing=pairing).solve(
        X_t, y_t, w_start=start, n_steps=5000, rng=0,
        callbacks=[lambda running: path.append(running.w)],
    )  # fmt: skip
    assert any(np.array_equal(found.w, w) for w in path)


def test_a_chunk_that_fails_leaves_the_stream_as_it_was(examples):
    _, _, X, y = examples
    fails = False

    def f(*pair):
        if fails and bool((pair[1] == X[12]).all()):
            raise RuntimeError("no more")
        return logistic(*pair)

    for pairing in (PreviousExample(), FifoBuffer(4), ClassReservoirs(3)):
        start = torch.zeros(3, dtype=torch.float64)
        stream, whole = (PairwiseObjective(f, pairing=pairing).start(start, rng=0) for _ in "ab")
        stream.learn_many(X[:5], y[:5])
        fails = True
        with pytest.raises(RuntimeError, match="no more"):
            stream.learn_many(X[5:], y[5:])
        fails = False
        stream.learn_many(X[5:], y[5:])
        whole.learn_many(X, y)
        assert torch.equal(stream.w, whole.w)
        assert torch.equal(stream.average, whole.average)
        assert stream.n_examples == len(X)


def test_what_is_refused(examples):
    _, _, X, y = examples
    zero = torch.zeros(3, dtype=torch.float64)
    objective = PairwiseObjective(logistic)
    with pytest.raises(TypeError, match="X must be a tensor"):
        objective.solve(X.numpy(), y, w_start=zero, n_steps=3)
    with pytest.raises(ValueError, match="X is on cpu, w_start on meta"):
        objective.solve(X, y, w_start=zero.to("meta"), n_steps=3)
    with pytest.raises(ValueError, match="Give one of"):
        objective.solve(X, y, w_start=zero)
    with pytest.raises(DivergenceError, match="f returned nan at step 1"):
        PairwiseObjective(lambda w, *z: w.sum() * float("nan")).solve(X, y, w_start=zero, n_steps=3)
    with pytest.raises(TypeError, match="one number as a tensor"):
        PairwiseObjective(lambda w, *z: w).solve(X, y, w_start=zero, n_steps=3)
    with pytest.raises(TypeError, match="f must be a function"):
        PairwiseObjective(3)
    with pytest.raises(ValueError, match="its own schedule"):
        PairwiseObjective(logistic, schedule=Constant(1.0)).solve_localized(
            X, y, w_start=zero, locality=1.0
        )
    with pytest.raises(ValueError, match="projects onto a set"):
        PairwiseObjective(logistic, domain=ElasticNet(1.0)).solve_localized(
            X, y, w_start=zero, locality=1.0
        )
    with pytest.raises(ValueError, match="needs the number of steps"):
        PairwiseObjective(logistic, averaging=Tail(0.5)).start(zero)


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("far", [[3.0, 4.0, 0.0], [0.0, 0.0, -2.236]])
def test_averages_stay_in_the_domain_wherever_the_run_starts(rule, far, examples):
    _, _, X, y = examples
    start = torch.tensor(far, dtype=torch.float64)
    objective = PairwiseObjective(
        logistic, schedule=Constant(0.01), domain=Ball(1.0), averaging=RULES[rule]
    )
    for n_steps in (1, 2, 10):
        found = objective.solve(X, y, w_start=start, n_steps=n_steps, rng=0)
        near = objective.solve(X, y, w_start=start / start.norm(), n_steps=n_steps, rng=0)
        assert float(found.average.norm()) <= 1.0 + 1e-12
        assert torch.allclose(found.average, near.average, rtol=0, atol=1e-14)
    if not RULES[rule].needs_horizon:
        assert float(objective.start(start).average.norm()) <= 1.0 + 1e-12
    with pytest.raises(ValueError, match="finite numbers"):
        objective.solve(X, y, w_start=start / 0.0, n_steps=3)


def test_the_average_past_a_buffer(examples):
    """Algorithm 2 with a buffer of 4, in chunks and resumed, against plain NumPy."""
    X, y, tX, ty = examples
    objective = PairwiseObjective(
        logistic, FifoBuffer(4), InverseSqrt(0.3), Ball(0.5), DelayedPastBuffer()
    )
    zero = torch.zeros(3, dtype=torch.float64)
    steps = InverseSqrt(0.3).step_sizes(1, 39)
    iterates = pairwise_sgd(
        Logistic(), X, y, step_sizes=steps, project=Ball(0.5).project, w_start=np.zeros(3),
        partners=[(t, list(range(max(0, t - 4), t))) for t in range(1, 40)],
    )  # fmt: skip
    expected = average_of(iterates, steps, "buffer:4")
    stream = objective.start(zero)
    for part in np.split(np.arange(40), [1, 2, 11]):
        stream.learn_many(tX[part], ty[part])
        stream = copy.deepcopy(stream)
    np.testing.assert_allclose(stream.average.numpy(), expected, rtol=1e-10, atol=1e-13)
    solved = objective.solve(tX, ty, w_start=zero, n_steps=30, rng=1)
    compiled = PairwiseSGD(FifoBuffer(4), InverseSqrt(0.3), Ball(0.5), DelayedPastBuffer()).solve(
        Problem(LinearScore(), Logistic()), X, y, n_steps=30, rng=1
    )
    np.testing.assert_allclose(solved.average.numpy(), compiled.average, rtol=1e-10, atol=1e-13)
