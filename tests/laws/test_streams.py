# SPDX-License-Identifier: BSD-3-Clause
"""A stream gives the same result up to rounding, however it is cut."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import (
    Ball,
    Constant,
    DivergenceError,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    LastIterate,
    LinearScore,
    Logistic,
    PairLoss,
    PairwiseSGD,
    PreviousExample,
    Problem,
    Square,
    Uniform,
    WholeSpace,
    scalar,
)
from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.models.file import dump_model, parse_model
from pairlearn.models.record import ModelRecord
from pairlearn.pairings import (
    AllPrevious,
    Arrival,
    ClassReservoirs,
    FrozenExample,
    GivenPairs,
    OnlineSource,
    Pairing,
    Plan,
    PreviousOfQuery,
    PreviousOpposite,
    ReservoirBuffer,
)
from pairlearn.streams.state import pack, unpack

N, D = 60, 5

cuts = st.lists(st.integers(1, N), max_size=8).map(sorted)
solvers = st.builds(
    PairwiseSGD,
    st.sampled_from([PreviousExample(), FifoBuffer(1), FifoBuffer(3)]),
    st.sampled_from([Constant(0.2), InverseSqrt(0.5)]),
    st.sampled_from([WholeSpace(), Ball(0.3), Ball(100.0)]),
    st.sampled_from([DelayedByStepSize(), DelayedLinear(), Uniform(), LastIterate()]),
)
dtypes = st.sampled_from([np.float64, np.float32])
problems = st.sampled_from([Problem(LinearScore(), loss) for loss in (Hinge(), Logistic())])


@pytest.fixture(params=[16384, 7])
def block(request, block_steps):
    """Steps per block: the true number, and so few that a stream crosses many borders."""
    block_steps(request.param)
    return request.param


def assert_near(found, wanted, dtype=np.float64):
    rounding = 1e-10 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(found, wanted, rtol=rounding, atol=rounding)


def sample(dtype=np.float64, seed=1):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7)).astype(dtype)
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=N) > 0, 1.0, -1.0)


def pieces(cut):
    """Return the slices between cuts, empty chunks included."""
    borders = [0, *cut, N]
    return [slice(a, b) for a, b in itertools.pairwise(borders)]


def learn_by_turns(stream, X, y, cut, first):
    """Feed the pieces between cuts as single examples and as chunks by turns; copies in between."""
    for k, piece in enumerate(pieces(cut)):
        if (k % 2 == 0) == first:
            for x, label in zip(X[piece], y[piece], strict=True):
                stream.learn_one(x, label)
        else:
            stream.learn_many(X[piece], y[piece])
        stream = pickle.loads(pickle.dumps(stream))
    return stream


@given(dtype=dtypes, solver=solvers, problem=problems, cut=cuts)
def test_chunks_of_any_sizes_give_the_same(block, dtype, solver, problem, cut):
    X, y = sample(dtype)
    whole = solver.start(problem, D, dtype=dtype).learn_many(X, y)
    stream = solver.start(problem, D, dtype=dtype)
    for piece in pieces(cut):
        stream.learn_many(X[piece], y[piece])
    assert_near(stream.w, whole.w, dtype)
    assert_near(stream.average, whole.average, dtype)
    assert (stream.n_steps, stream.n_gradients) == (whole.n_steps, whole.n_gradients)
    assert stream.n_examples == N


@given(dtype=dtypes, solver=solvers, problem=problems, cut=cuts, first=st.booleans())
def test_one_by_one_and_many_give_the_same(block, dtype, solver, problem, cut, first):
    """Chunks and single examples take turns."""
    X, y = sample(dtype)
    whole = solver.start(problem, D, dtype=dtype).learn_many(X, y)
    stream = learn_by_turns(solver.start(problem, D, dtype=dtype), X, y, cut, first)
    assert_near(stream.w, whole.w, dtype)
    assert_near(stream.average, whole.average, dtype)
    assert stream.n_gradients == whole.n_gradients
    assert stream.n_examples == N


@given(solver=solvers, problem=problems, cut=cuts, seed=st.integers(0, 1000))
def test_weighted_chunks_give_the_same(block, solver, problem, cut, seed):
    X, y = sample()
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], N)
    whole = solver.start(problem, D).learn_many(X, y, example_weight=weight)
    stream = solver.start(problem, D)
    for piece in pieces(cut):
        stream.learn_many(X[piece], y[piece], example_weight=weight[piece])
    assert_near(stream.w, whole.w)
    assert_near(stream.average, whole.average)


@given(
    dtype=dtypes,
    problem=problems,
    schedule=st.sampled_from([Constant(0.2), InverseSqrt(0.5)]),
    domain=st.sampled_from([WholeSpace(), Ball(0.3), Ball(100.0)]),
    averaging=st.sampled_from([DelayedByStepSize(), DelayedLinear(), Uniform(), LastIterate()]),
    cut=cuts,
)
def test_sparse_chunks_agree(block, dtype, problem, schedule, domain, averaging, cut):
    X, y = sample(dtype)
    X = scipy.sparse.csr_array(X)
    solver = PairwiseSGD(PreviousExample(), schedule, domain, averaging)
    whole = solver.start(problem, D).learn_many(X, y)
    stream = solver.start(problem, D)
    for piece in pieces(cut):
        if piece.stop > piece.start:
            stream.learn_many(X[piece], y[piece])
    scale = np.abs(whole.average).max()
    assert np.abs(stream.average - whole.average).max() <= 1e-12 * scale
    assert np.abs(stream.w - whole.w).max() <= 1e-12 * np.abs(whole.w).max()
    dense = solver.start(problem, D).learn_many(X.toarray().astype(np.float64), y)
    assert np.abs(dense.average - whole.average).max() <= 1e-12 * scale


@settings(max_examples=20)
@given(solver=solvers, problem=problems, cut=cuts)
def test_reading_the_average_changes_nothing(block, solver, problem, cut):
    X, y = sample()
    whole = solver.start(problem, D).learn_many(X, y)
    stream = solver.start(problem, D)
    for piece in pieces(cut):
        stream.learn_many(X[piece], y[piece])
        _ = stream.average, stream.w
        stream.state()
    assert_near(stream.average, whole.average)


@settings(max_examples=20)
@given(solver=solvers, problem=problems, at=st.integers(0, N))
def test_a_saved_state_can_be_restored_more_than_once(block, solver, problem, at):
    X, y = sample()
    stream = solver.start(problem, D).learn_many(X[:at], y[:at])
    saved = stream.state()
    ends = []
    for _ in range(3):
        stream.learn_many(X[at:], y[at:])
        ends.append((stream.average, stream.w, stream.n_steps, stream.n_examples))
        stream.restore(saved)
        assert stream.n_examples == at
    for end in ends[1:]:
        assert np.array_equal(end[0], ends[0][0])
        assert np.array_equal(end[1], ends[0][1])
        assert end[2:] == ends[0][2:]


class Second(OnlineSource):
    """A source of one's own: each example meets the one before the previous."""

    def __init__(self):
        self.remembered = 0

    def arrive(self, y):
        n = self.remembered + len(y)
        rows, self.remembered = np.arange(2, n), min(n, 2)
        return Arrival(Plan(rows, rows - 2), np.arange(max(n - 2, 0), n))


class SecondLast(Pairing):
    def online(self, rng):
        return Second()


PAIRINGS = {
    "previous": PreviousExample(),
    "frozen": FrozenExample(),
    "opposite": PreviousOpposite(),
    "fifo": FifoBuffer(3),
    "all": AllPrevious(),
    "reservoir": ReservoirBuffer(4),
    "class reservoirs": ClassReservoirs(3, 4, weighting="oam"),
    "given": GivenPairs(),
    "queries": PreviousOfQuery(),
    "own": SecondLast(),
}


@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("name", PAIRINGS)
def test_a_state_written_down_goes_on_elsewhere(name, storage):
    """Through the bytes of a file, into a stream that another process would have started."""
    X, y = sample()
    qid = {"qid": np.arange(N) % 7} if name == "queries" else {}
    solver, problem = PairwiseSGD(PAIRINGS[name]), Problem(LinearScore(), Hinge())

    def learn(stream, rows):
        part = {key: value[rows] for key, value in qid.items()}
        return stream.learn_many(storage(X[rows]), y[rows], **part)

    stream = learn(learn(solver.start(problem, D, rng=3), slice(0, 14)), slice(14, 30))
    plain, arrays = pack(stream.state())
    record = ModelRecord("state", arrays, provenance={"state": plain})
    found = parse_model(dump_model(record), allow_unregistered=True)
    twin = solver.start(problem, D, rng=4)
    twin.restore(unpack(found.provenance["state"], found.arrays))
    for s in (stream, twin):
        learn(s, slice(30, N))
    assert np.array_equal(twin.average, stream.average)
    assert (twin.n_steps, twin.n_gradients) == (stream.n_steps, stream.n_gradients)
    assert twin.n_examples == N


def test_a_state_of_other_parts_is_refused():
    X, y = sample()
    problem = Problem(LinearScore(), Hinge())
    state = PairwiseSGD(FifoBuffer(3)).start(problem, D).learn_many(X, y).state()
    with pytest.raises(ValueError, match=r"has the pairing FifoBuffer.*this one ReservoirBuffer"):
        PairwiseSGD(ReservoirBuffer(3)).start(problem, D).restore(state)
    unnamed = {name: value for name, value in state.items() if name != "pairing"}
    with pytest.raises(ValueError, match="is not one of _Reservoir"):
        PairwiseSGD(ReservoirBuffer(3)).start(problem, D).restore(unnamed)
    with pytest.raises(ValueError, match=r"saved w has shape \(5,\), here it has \(4,\)"):
        PairwiseSGD(FifoBuffer(3)).start(problem, 4).restore(state)
    state["descent"]["w"] = np.zeros(1)
    with pytest.raises(ValueError, match=r"saved w has shape \(1,\), here it has \(5,\)"):
        PairwiseSGD(FifoBuffer(3)).start(problem, D).restore(state)


def test_a_source_must_say_its_state():
    class Mute(Pairing):
        def online(self, rng):
            return object()

    with pytest.raises(TypeError, match=r"Mute\.online must return an OnlineSource, got object"):
        PairwiseSGD(Mute()).start(Problem(LinearScore(), Hinge()), D)


@settings(max_examples=25)
@given(
    copied=st.sampled_from([copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]),
    solver=solvers,
    problem=problems,
    at=st.integers(1, N - 2),
    before=st.booleans(),
    after=st.booleans(),
)
def test_a_copied_stream_goes_its_own_way(block, copied, solver, problem, at, before, after):
    X, y = sample()
    whole = solver.start(problem, D).learn_many(X, y)
    other = solver.start(problem, D).learn_many(
        np.concatenate([X[:at], X[at:][::-1]]), np.concatenate([y[:at], y[at:][::-1]])
    )
    stream = feed(solver.start(problem, D), X[:at], y[:at], before)
    twin = copied(stream)
    assert np.array_equal(twin.average, stream.average)
    feed(twin, X[at:][::-1], y[at:][::-1], after)
    feed(stream, X[at:], y[at:], after)
    assert_near(stream.average, whole.average)
    assert_near(twin.average, other.average)


def feed(stream, X, y, one_by_one):
    if not one_by_one:
        return stream.learn_many(X, y)
    for x, label in zip(X, y, strict=True):
        stream.learn_one(x, label)
    return stream


def test_a_stored_stream_is_small_and_holds_no_address():
    X, y = sample()
    stream = PairwiseSGD().start(Problem(LinearScore(), Logistic()), D).learn_many(X, y)
    stored = pickle.dumps(stream)
    assert len(stored) < 10_000
    address = Logistic.derivative.address
    assert address.to_bytes(8, "little") not in stored


class Fragile(PairLoss):
    """A loss that is NaN for scores beyond 5."""

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        return 0.0

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        if score > 5.0 or score < -5.0:
            return np.nan
        return -0.1 if y > y_partner else 0.1


def same_state(stream, twin, X, y, dtype=np.float64):
    """Tell whether two streams stand at the same point and go the same way."""
    assert_near(stream.w, twin.w, dtype)
    assert_near(stream.average, twin.average, dtype)
    assert stream.n_steps == twin.n_steps
    assert stream.n_gradients == twin.n_gradients
    assert stream.n_examples == twin.n_examples
    for s in (stream, twin):
        s.learn_many(X, y)
        s.learn_one(X[0], -y[0])
    assert_near(stream.average, twin.average, dtype)


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("kind", ["NaN in X", "inf in X", "NaN in y", "loss", "divergence"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_failed_chunk_leaves_the_stream_as_it_was(block, kind, one_by_one, dtype):
    X, y = sample(dtype)
    loss = {"loss": Fragile(), "divergence": Square()}.get(kind, Hinge())
    stream, twin = (
        PairwiseSGD(schedule=Constant(0.1)).start(Problem(LinearScore(), loss), D, dtype=dtype)
        for _ in range(2)
    )
    for s in (stream, twin):
        for x, label in zip(X[:20], y[:20], strict=True):
            s.learn_one(x, label) if one_by_one else s.learn_many(x[np.newaxis], [label])
    bad_X, bad_y = X[20:24].copy(), -y[19] * np.array([1.0, -1.0, 1.0, -1.0])
    # The first row of the chunk is learnable unless examples come one by one.
    at = 0 if one_by_one else 2
    if kind == "NaN in X":
        bad_X[at, 1] = np.nan
    elif kind == "inf in X":
        bad_X[at, 1] = np.inf
    elif kind == "NaN in y":
        bad_y[at] = np.nan
    else:
        bad_X[at] = 1e30 if dtype is np.float32 else 1e200
    error, message = {
        "loss": (DivergenceError, "Fragile returned NaN at step 2[0-3]; check its derivative"),
        "divergence": (DivergenceError, "stopped being finite at step 2[0-3] .*smaller step_size"),
    }.get(kind, (ValueError, "NaN or infinity"))
    if one_by_one:
        with pytest.raises(error, match=message), np.errstate(all="ignore"):
            stream.learn_one(bad_X[at], bad_y[at])
    else:
        with pytest.raises(error, match=message), np.errstate(all="ignore"):
            stream.learn_many(bad_X, bad_y)
    same_state(stream, twin, X[30:], y[30:])


@pytest.mark.parametrize("x", [[1.0], 3.0, np.ones(D + 1), np.ones((1, D)), np.ones((2, D))])
@pytest.mark.parametrize("known", [0, 1, 5])
def test_an_example_of_the_wrong_shape(x, known):
    X, y = sample()
    problem = Problem(LinearScore(), Hinge())
    stream, twin = (PairwiseSGD().start(problem, D) for _ in range(2))
    for s in (stream, twin):
        for row, label in zip(X[:known], y[:known], strict=True):
            s.learn_one(row, label)
    with pytest.raises(ValueError, match=rf"x must have shape \({D},\), got"):
        stream.learn_one(x, 1.0)
    same_state(stream, twin, X, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_example_may_be_any_kind_of_vector(dtype):
    X, y = sample(dtype)
    fixed = X.copy()
    fixed.flags.writeable = False
    kinds = (list, np.asfortranarray(X).__getitem__, fixed.__getitem__, lambda x: x[::-1][::-1])
    problem = Problem(LinearScore(), Hinge())
    one, many = (PairwiseSGD().start(problem, D, dtype=dtype) for _ in range(2))
    for i, (x, label) in enumerate(zip(X, y, strict=True)):
        kind = kinds[i % len(kinds)]
        one.learn_one(kind(i if kind in kinds[1:3] else x), label)
    same_state(one, many.learn_many(X, y), X, y, dtype)


def test_wrong_chunks():
    X, y = sample()
    stream = PairwiseSGD().start(Problem(LinearScore(), Hinge()), D)
    stream.learn_many(X[:5], y[:5])
    with pytest.raises(ValueError, match="X has 3 features, but the stream has 5"):
        stream.learn_many(X[:, :3], y)
    with pytest.raises(ValueError, match="one number for each of the 60 rows of X, got shape"):
        stream.learn_many(X, y[:5])
    with pytest.raises(TypeError, match="dense chunks or sparse chunks, not both"):
        stream.learn_many(scipy.sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="example_weight for every chunk of a stream or for none"):
        stream.learn_many(X, y, example_weight=np.ones(N))
    with pytest.raises(ValueError, match="two dimensions"):
        stream.learn_many(X[0], y[:1])
    assert stream.n_examples == 5
    assert stream.learn_many(X[:0], y[:0]).n_examples == 5
    weighted = PairwiseSGD().start(Problem(LinearScore(), Hinge()), D)
    weighted.learn_many(X[:5], y[:5], example_weight=np.ones(5))
    with pytest.raises(ValueError, match="example_weight for every chunk of a stream or for none"):
        weighted.learn_one(X[5], y[5])


def test_bad_starts():
    problem = Problem(LinearScore(), Hinge())
    with pytest.raises(ValueError, match="n_features must be at least 1, got 0"):
        PairwiseSGD().start(problem, 0)
    with pytest.raises(ValueError, match=r"w_start must have shape \(3,\), got \(2,\)"):
        PairwiseSGD().start(problem, 3, w_start=[0.0, 1.0])
    with pytest.raises(ValueError, match="w_start contains NaN or infinity"):
        PairwiseSGD().start(problem, 2, w_start=[0.0, np.nan])
