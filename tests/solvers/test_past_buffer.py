# SPDX-License-Identifier: BSD-3-Clause
"""The average of w_{j-s-1} for a buffer of s examples, on streams and on stored examples."""

import pickle

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    AUCClassifier,
    Ball,
    Constant,
    ElasticNet,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    LinearScore,
    Logistic,
    PairwiseSGD,
    PreviousExample,
    Problem,
    WholeSpace,
    load_model,
)
from pairlearn.averaging import AVERAGINGS, DelayedByStepSize, DelayedPastBuffer
from pairlearn.domains import PsdCone
from pairlearn.estimators import SGD
from pairlearn.losses import METRIC_LOSSES
from pairlearn.pairings import AllPrevious, PreviousOpposite, RandomPair, ReservoirBuffer
from pairlearn.reference import average_of, pairwise_sgd
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers import SPAUC
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.streams.running_scales import RunningScales

N, D = 60, 3
PROBLEM = Problem(LinearScore(), Logistic())


@pytest.fixture
def data(rng):
    X = rng.normal(size=(N, D))
    return X, np.where(X[:, 0] + rng.normal(size=N) > 0, 1.0, -1.0)


def expected_average(X, y, size, *, schedule=None, domain=None, loss=None, n=None):
    """Algorithm 2 with a buffer of the last `size` examples, in plain NumPy."""
    n = len(y) if n is None else n
    steps = (schedule or InverseSqrt(0.3)).step_sizes(1, n - 1)
    iterates = pairwise_sgd(
        loss or Logistic(),
        X,
        y,
        partners=[(t, list(range(max(0, t - size), t))) for t in range(1, n)],
        step_sizes=steps,
        project=(domain or WholeSpace()).project,
        w_start=np.zeros(D),
    )
    return average_of(iterates, steps, f"buffer:{size}")


def started(size, *, domain=None, averaging=None, pairing=None, **options):
    return PairwiseSGD(
        pairing or FifoBuffer(size),
        InverseSqrt(0.3),
        domain or WholeSpace(),
        averaging or DelayedPastBuffer(),
    ).start(PROBLEM, D, rng=0, **options)


def feed(stream, X, y, cuts):
    for part in np.split(np.arange(len(y)), cuts):
        stream.learn_many(X[part], y[part])
    return stream


@pytest.mark.parametrize("size", [1, 2, 7, 100])
@pytest.mark.parametrize("domain", [WholeSpace(), Ball(0.2)])
def test_a_stream_has_the_average_after_every_example(size, domain, data, block_steps):
    block_steps(16)
    X, y = data
    stream = started(size, domain=domain)
    for n in range(1, N + 1):
        stream.learn_one(X[n - 1], y[n - 1])
        if n > 1:
            expected = expected_average(X, y, size, domain=domain, n=n)
            np.testing.assert_allclose(stream.average, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("kind", ["dense", "float32", "csr", "scaled"])
def test_chunks_states_and_copies_make_no_difference(size, kind, data, block_steps):
    block_steps(16)
    X, y = data
    if kind == "csr":
        X = scipy.sparse.csr_array(X)
    options = {"dtype": np.float32} if kind == "float32" else {}
    if kind == "scaled":
        X = X * [1.0, 30.0, 0.01]
    runs = []
    for cuts in ([], [1, 2, 3, 30], [17, 33], list(range(1, N))):
        more = {"scales": RunningScales(D)} if kind == "scaled" else {}
        runs.append(feed(started(size, **options, **more), X, y, cuts).average)
    tolerance = 1e-4 if kind == "float32" else 1e-10
    for other in runs[1:]:
        np.testing.assert_allclose(other, runs[0], rtol=tolerance)
    more = {"scales": RunningScales(D)} if kind == "scaled" else {}
    half = feed(started(size, **options, **more), X[:25], y[:25], [])
    again = started(size, **options, **({"scales": RunningScales(D)} if more else {}))
    again.restore(half.state())
    copied = pickle.loads(pickle.dumps(half))
    for stream in (half, again, copied):
        found = feed(stream, X[25:], y[25:], []).average
        np.testing.assert_allclose(found, runs[0], rtol=tolerance)


def test_a_state_without_the_past_is_refused(data):
    X, y = data
    state = feed(started(3, averaging=DelayedByStepSize()), X, y, []).state()
    with pytest.raises(ValueError, match="the averaging DelayedByStepSize"):
        started(3).restore(state)
    unnamed = {name: value for name, value in state.items() if name != "averaging"}
    with pytest.raises(ValueError, match="the saved past has shape"):
        started(3).restore(unnamed)
    state = feed(started(2), X, y, []).state()
    with pytest.raises(ValueError, match="saved"):
        started(3).restore(state)


def test_a_step_that_fails_leaves_the_past(data):
    X, y = data
    stream = feed(started(1), X[:20], y[:20], [])
    before = stream.state()
    with pytest.raises(ValueError, match="NaN"):
        stream.learn_one([np.nan] * D, 1.0)
    assert np.array_equal(stream.state()["descent"]["past"], before["descent"]["past"])


def test_examples_from_before_count_as_steps(data):
    X, y = data
    stream = started(3, w_start=[1.0, 0.0, 0.0], n_before=10)
    assert np.allclose(stream.average, [1.0, 0.0, 0.0])
    feed(stream, X[:3], y[:3], [])
    # Steps 11 and 12 weigh w_7 and w_8, which are still the start.
    assert np.allclose(stream.average, [1.0, 0.0, 0.0])
    feed(stream, X[3:9], y[3:9], [])
    assert not np.allclose(stream.average, [1.0, 0.0, 0.0])


@pytest.mark.parametrize("size", [1, 5])
def test_callbacks_and_the_end_of_a_stored_run_agree(size, data, block_steps):
    block_steps(16)
    X, y = data
    solver = PairwiseSGD(FifoBuffer(size), InverseSqrt(0.3), Ball(1.0), DelayedPastBuffer())
    seen = {}
    whole = solver.solve(
        PROBLEM, X, y, n_steps=70, rng=3,
        callbacks=[lambda run: seen.update({run.step: run.average})],
    )  # fmt: skip
    for step, average in seen.items():
        short = solver.solve(PROBLEM, X, y, n_steps=step, rng=3).average
        np.testing.assert_allclose(average, short, rtol=1e-11, atol=1e-14)
    assert np.array_equal(whole.average, seen[70])


@pytest.mark.parametrize("domain", [WholeSpace(), ElasticNet(l1=0.01, l2=0.0)])
def test_a_longer_delay_than_the_pairing_needs(domain, data):
    X, y = data
    runs = [
        PairwiseSGD(PreviousExample(), Constant(0.1), domain, rule).start(PROBLEM, D, rng=0)
        for rule in (DelayedPastBuffer(2), DelayedPastBuffer(1), DelayedByStepSize())
    ]
    for stream in runs:
        for x, label in zip(X, y, strict=True):
            stream.learn_one(x, label)
    np.testing.assert_allclose(runs[1].average, runs[2].average, rtol=1e-11, atol=1e-13)
    assert not np.allclose(runs[0].average, runs[1].average, rtol=1e-6)


def test_mahalanobis_streams_have_it_too(data):
    X, _ = data
    labels = np.arange(N) % 3.0
    problem = Problem(MahalanobisScore(), METRIC_LOSSES.make("hinge"))
    averages = []
    for rule in (DelayedPastBuffer(1), DelayedByStepSize()):
        solver = PairwiseSGD(PreviousExample(), Constant(0.05), PsdCone(), rule)
        stream = solver.start(problem, D, rng=0)
        for part in ([*range(20)], [20], [*range(21, N)]):
            stream.learn_many(X[part], labels[part])
        averages.append(stream.average)
    np.testing.assert_allclose(*averages, rtol=1e-10, atol=1e-13)


def test_what_cannot_hold_is_refused():
    for pairing in (ReservoirBuffer(5), AllPrevious(), PreviousOpposite()):
        for rule in (DelayedPastBuffer(), DelayedPastBuffer(50)):
            with pytest.raises(ValueError, match="needs a pairing that forgets"):
                started(5, pairing=pairing, averaging=rule)
    with pytest.raises(ValueError, match=r"too short .* use DelayedPastBuffer\(5\)"):
        started(5, averaging=DelayedPastBuffer(4))
    with pytest.raises(ValueError, match="which this solver has not"):
        SPAUC(averaging=DelayedPastBuffer(2)).solve(np.eye(4), [1, -1, 1, -1], n_passes=1)
    sweep = Sweep((0.1,), (1.0,), RandomPair(), averaging=DelayedPastBuffer())
    assert sweep.averaging == DelayedPastBuffer(1)


def test_an_estimator_takes_it_by_name_and_a_file_holds_it(data, tmp_path):
    X, y = data
    assert AVERAGINGS.make("past_buffer") == DelayedPastBuffer()
    solver = SGD(step_size=0.3, averaging="past_buffer", pairing=FifoBuffer(4))
    model = AUCClassifier(solver=solver, loss="logistic", scaling=None)
    for part in np.split(np.arange(N), [20, 21, 40]):
        model.partial_fit(X[part], y[part], classes=[-1.0, 1.0])
    np.testing.assert_allclose(model.coef_[0], expected_average(X, y, 4), rtol=1e-10)
    for rule in ("past_buffer", DelayedPastBuffer(4)):
        model.set_params(solver__averaging=rule).save(tmp_path / "model.pairlearn")
        loaded = load_model(tmp_path / "model.pairlearn")
        assert np.array_equal(loaded.coef_, model.coef_)
        assert loaded.solver.averaging == rule
    with pytest.raises(ValueError, match="needs a pairing that forgets"):
        AUCClassifier(solver=SGD(step_size=0.1, averaging="past_buffer", pairing="reservoir")).fit(
            X, y
        )


def test_a_hinge_run_in_registers(data):
    X, y = data
    solver = PairwiseSGD(FifoBuffer(3), Constant(0.1), averaging=DelayedPastBuffer())
    stream = solver.start(Problem(LinearScore(), Hinge()), D, rng=0).learn_many(X, y)
    expected = expected_average(X, y, 3, schedule=Constant(0.1), loss=Hinge())
    np.testing.assert_allclose(stream.average, expected, rtol=1e-10, atol=1e-13)
