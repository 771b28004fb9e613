# SPDX-License-Identifier: BSD-3-Clause
"""Linear fits with given ranges: the same bits in memory and from a stream, and rows go back."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from pairlearn import AUCClassifier, Hats, Moments, OnlineLearner, load_model
from pairlearn.solvers import ClassMoments, Grid
from pairlearn.solvers.closed_form.grid import FINE
from pairlearn.streams import CheckpointError, Schema, open_reader

RNG = np.random.default_rng(8)
N = 1200
X = RNG.normal(size=(N, 4)) * [1.0, 10.0, 0.1, 1e3] + [0.0, 50.0, 0.0, 0.0]
X[:, 2] = np.rint(10 * X[:, 2])
Y = np.where(X[:, 0] + 0.05 * X[:, 1] + RNG.normal(size=N) > 2.5, "yes", "no")
WEIGHT = RNG.integers(1, 4, N) * 1.0
RANGES = ((-5, 0, -5, -5e3), (5, 100, 5, 5e3))
GIVEN = Moments(0.01, ranges=RANGES, keep_state=True)
CHOSEN = Moments(ranges=RANGES, keep_state=True)
#: The labels as a reader of files has them.
NUMBERS = (Y == "yes") * 1
ORDER = RNG.permutation(N)


def model(solver=GIVEN, **parameters):
    return AUCClassifier(solver=solver, random_state=0, **parameters)


def streamed(order, sizes, solver=GIVEN, weight=None, make=np.asarray, **parameters):
    learner, start = model(solver, **parameters), 0
    while start < len(order):
        part = order[start : start + next(sizes)]
        own = None if weight is None else weight[part]
        learner.partial_fit(make(X[part]), Y[part], ["no", "yes"], own)
        start += len(part)
    return learner


def sizes_of(seed):
    rng = np.random.default_rng(seed)
    while True:
        yield int(rng.choice([1, 2, 40, 300]))


def bits(found):
    return found.coef_.tobytes()


@pytest.mark.parametrize("solver", [GIVEN, CHOSEN], ids=["given", "chosen"])
@pytest.mark.parametrize(
    "weight",
    [None, pytest.param(WEIGHT, marks=pytest.mark.thorough)],
    ids=["plain", "weighted"],
)
@pytest.mark.parametrize("scaling", ["auto", None])
def test_memory_and_any_chunks_give_the_same_bits(solver, weight, scaling):
    whole = model(solver, scaling=scaling).fit(X, Y, weight)
    shuffled = model(solver, scaling=scaling).fit(
        X[ORDER], Y[ORDER], None if weight is None else weight[ORDER]
    )
    assert bits(shuffled) == bits(whole)
    for seed, order in enumerate((ORDER, np.arange(N)[::-1])):
        make = scipy.sparse.csr_array if seed else np.asarray
        found = streamed(order, sizes_of(seed), solver, weight, make, scaling=scaling)
        assert bits(found) == bits(whole)
        assert found.ridge_ == whole.ridge_
        assert found.n_examples_ == N
        assert found.solver_ == whole.solver_ == "moments"
    assert 0.8 < whole.score(X, Y) < 0.95


def test_the_coefficients_are_those_of_the_moments_on_the_grid():
    grid = Grid.between(*map(np.array, RANGES), bits=FINE)
    moments = ClassMoments(4, grid).add(X, np.where(Y == "yes", 1.0, -1.0))
    share = moments.counts / N
    covariance, gap = moments.covariance, moments.difference
    within = share[0] * moments.scatters[0] / moments.counts[0]
    within = within + share[1] * moments.scatters[1] / moments.counts[1]
    size = np.sqrt(np.diag(within) + share[0] * share[1] * gap**2)
    matrix = covariance / np.outer(size, size) + np.outer(gap / size, gap / size)
    expected = np.linalg.solve(matrix + 0.01 * np.eye(4), gap / size) / size
    np.testing.assert_allclose(model().fit(X, Y).coef_[0], expected, rtol=1e-10)


def test_rough_ranges_change_hardly_anything():
    exact = model().fit(X, Y).coef_
    for ranges in ((-1e6, 1e6), (-1.0, 1.0), (-3e4, 1e4)):
        found = model(Moments(0.01, ranges=ranges)).fit(X, Y).coef_
        np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_single_precision_rows_are_those_numbers():
    single = X.astype(np.float32)
    double = model(CHOSEN).fit(single.astype(np.float64), Y)
    assert bits(model(CHOSEN).fit(single, Y)) == bits(double)
    stream = model(CHOSEN).partial_fit(single[:500], Y[:500], ["no", "yes"])
    assert bits(stream.partial_fit(single[500:].astype(float), Y[500:])) == bits(double)


def test_ranges_that_hide_a_feature_warn():
    wide = Moments(0.01, ranges=(-1e30, 1e30))
    with pytest.warns(UserWarning, match="Feature 0 varies by fewer than 256 steps"):
        model(wide).fit(X, Y)
    stream = model(wide).partial_fit(X, Y, ["no", "yes"])
    with pytest.warns(UserWarning, match="give narrower ranges"):
        stream.finish_stream()
    # A constant feature has no spread to lose.
    constant = np.column_stack([X, np.full(N, 3.0)])
    assert model(Moments(0.01, ranges=(-1e4, 1e4))).fit(constant, Y).coef_[0, 4] == 0.0


@pytest.mark.parametrize("solver", [GIVEN, CHOSEN], ids=["given", "chosen"])
def test_rows_that_are_taken_back_leave_the_bits_of_a_fit_without_them(solver):
    gone, left = ORDER[:200], ORDER[200:]
    # An outlier far beyond the ranges comes, and goes.
    far, label = np.full((1, 4), 1e30), np.array(["yes"])
    memory = model(solver).fit(np.vstack([X, far]), np.append(Y, label))
    stream = streamed(ORDER, sizes_of(3), solver).partial_fit(far, label)
    without = model(solver).fit(X[left], Y[left])
    for found in (memory, stream):
        found.partial_unfit(far, label)
        for part in np.array_split(gone, 3):
            found.partial_unfit(X[part], Y[part])
        assert found.n_examples_ == len(left)
    assert bits(stream) == bits(without)
    assert stream.ridge_ == without.ridge_
    assert stream.threshold_ == without.threshold_
    assert stream.forgetting_certificate_.kept == ()
    if solver is GIVEN:
        assert bits(memory) == bits(without)
        assert memory.forgetting_certificate_.kept == ("threshold", "calibration")
    else:
        # The model of fit keeps its ridge, which the outlier had a part in.
        assert "ridge" in memory.forgetting_certificate_.kept
    memory, stream = memory.forgetting_certificate_, stream.forgetting_certificate_
    assert (memory.before, memory.rows, memory.after) == (stream.before, stream.rows, stream.after)


def test_a_stream_goes_on_after_rows_are_taken_back():
    stream = streamed(ORDER[:700], sizes_of(1))
    stream.partial_unfit(X[ORDER[:100]], Y[ORDER[:100]])
    stream.partial_fit(X[ORDER[700:]], Y[ORDER[700:]])
    left = ORDER[100:]
    assert bits(stream) == bits(model().fit(X[left], Y[left]))
    # Learning drops the certificate of the last time.
    assert not hasattr(stream, "forgetting_certificate_")


def test_class_weights_move_the_threshold_only():
    weights = {"no": 1.0, "yes": 7.5}
    memory = model(class_weight=weights).fit(X, Y)
    stream = streamed(ORDER, sizes_of(2), class_weight=weights)
    assert bits(memory) == bits(stream) == bits(model().fit(X, Y))
    plain = streamed(ORDER, sizes_of(2))
    assert stream.threshold_ != plain.threshold_
    np.testing.assert_allclose(stream.threshold_, memory.threshold_, rtol=1e-9)
    balanced = model(class_weight="balanced").fit(X, Y).partial_unfit(X[:9], Y[:9])
    assert bits(balanced) == bits(model().fit(X[9:], Y[9:]))


def test_a_chunk_that_fails_leaves_the_stream_as_it_was():
    stream = streamed(ORDER[:500], sizes_of(0))
    before = bits(stream), stream.n_examples_
    part = ORDER[500:900]
    with pytest.raises(ValueError, match=r"whole numbers, got 0\.5; multiply"):
        stream.partial_fit(X[part], Y[part], sample_weight=np.r_[np.ones(399), 0.5])
    for rows, labels, why in (
        (X[part], Y[part], "not all among those"),
        (X[ORDER[:1]], np.where(Y[ORDER[:1]] == "no", "yes", "no"), "not all among those"),
        (X[ORDER[:500]][Y[ORDER[:500]] == "no"], np.full(1, "no"), "no example of one of"),
    ):
        with pytest.raises(ValueError, match=why):
            stream.partial_unfit(rows, np.resize(labels, len(rows)))
    assert (bits(stream), stream.n_examples_) == before


def reader_of(path):
    return open_reader(path, Schema(label="label"), chunk_rows=100)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [
        ",".join(map(repr, [*row.tolist(), y])) for row, y in zip(X, NUMBERS.tolist(), strict=True)
    ]
    path.write_text("\n".join(["a,b,c,d,label", *lines]) + "\n")
    return path


def learner_of(solver=GIVEN):
    return OnlineLearner(model(solver), classes=[0, 1])


@pytest.mark.parametrize("solver", [GIVEN, CHOSEN], ids=["given", "chosen"])
def test_an_interrupted_run_goes_on_bit_for_bit(solver, table, tmp_path):
    checkpoint = tmp_path / "run"

    def stop(learner, chunk):
        if learner.n_seen == 700:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        learner_of(solver).fit_stream(
            reader_of(table), checkpoint=checkpoint, every=300, progress=stop
        )
    again = learner_of(solver)
    again.fit_stream(reader_of(table), checkpoint=checkpoint, every=300)
    whole = learner_of(solver).fit_stream(reader_of(table))
    assert again.n_seen == N
    assert bits(again.model) == bits(whole.model) == bits(model(solver).fit(X, NUMBERS))
    assert again.auc == whole.auc > 0.8


def test_a_learner_takes_rows_back_from_its_checkpoint_too(table, tmp_path):
    checkpoint = tmp_path / "run"
    learner = learner_of().fit_stream(reader_of(table), checkpoint=checkpoint, every=300)
    learner.unlearn_many(X[:150], NUMBERS[:150], checkpoint=checkpoint)
    expected = bits(model().fit(X[150:], NUMBERS[150:]))
    assert bits(learner.model) == expected
    assert learner.n_seen == N
    for path in (checkpoint, checkpoint.with_name("run.previous")):
        again = learner_of().fit_stream(reader_of(table), checkpoint=path)
        assert bits(again.model) == expected
    with pytest.raises(CheckpointError, match="is not that of the 1200 examples"):
        learner.unlearn_many(X[150:160], NUMBERS[150:160], checkpoint=tmp_path / "another")
    assert bits(learner.unlearn_many(X[150:200], NUMBERS[150:200]).model) == bits(
        model().fit(X[200:], NUMBERS[200:])
    )


def test_streams_that_cannot_take_rows_back_say_so():
    forgets = AUCClassifier(solver="moments").partial_fit(X, Y, ["no", "yes"])
    with pytest.raises(ValueError, match=r"give Moments\(ranges=\.\.\.\), with which it remembers"):
        forgets.partial_unfit(X[:5], Y[:5])
    steps = OnlineLearner(AUCClassifier(solver="sgd"), classes=["no", "yes"]).learn_many(X, Y)
    with pytest.raises(ValueError, match="do not say what each row had a part in"):
        steps.unlearn_many(X[:5], Y[:5])
    with pytest.raises(ValueError, match="remembers everything"):
        streamed(ORDER[:50], sizes_of(0)).restart_stream()


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ((1.0, 0.0), "low < high"),
        (3.0, "low < high"),
        ((0.0, np.inf), "low < high"),
        (((0, 0), (1, 1, 1)), "low < high"),
        ("ab", "low < high"),
    ],
)
def test_ranges_are_checked(ranges, why):
    with pytest.raises(ValueError, match=why):
        Moments(ranges=ranges)


def test_what_does_not_go_with_ranges_is_refused():
    with pytest.raises(ValueError, match=r"memory=100\.0 forgets some"):
        Moments(ranges=(0, 1), memory=100.0)
    for learn in ("fit", "partial_fit"):
        small = model(GIVEN.with_params(max_memory=100.0))
        with pytest.raises(ValueError, match="max_memory=100 bytes"):
            getattr(small, learn)(X, Y, *([["no", "yes"]] if learn == "partial_fit" else []))
    with pytest.raises(ValueError, match="ranges are of 4 features, X has 2"):
        model().fit(X[:, :2], Y)
    with pytest.raises(ValueError, match="ranges are those of linear features"):
        model(features=Hats()).fit(X, Y)
    with pytest.raises(ValueError, match="ranges are for the moments of two classes"):
        model().fit(X, np.arange(N) % 3)
    with pytest.raises(ValueError, match="ranges are for the moments of two classes"):
        model().partial_fit(X, np.arange(N) % 3, [0, 1, 2])
    with pytest.raises(ValueError, match="cannot go on from fit"):
        model().fit(X, Y).partial_fit(X, Y)
    state = streamed(ORDER[:90], sizes_of(0)).stream_state()
    with pytest.raises(ValueError, match="learned with ranges"):
        AUCClassifier(solver=Moments(0.01)).restore_stream(state)
    with pytest.raises(ValueError, match="on another grid"):
        model(Moments(0.01, ranges=(-1, 1))).restore_stream(state)
    plain = AUCClassifier(solver=Moments(0.01)).partial_fit(X, Y, ["no", "yes"]).stream_state()
    with pytest.raises(ValueError, match="learned without ranges"):
        model().restore_stream(plain)


def test_ranges_are_a_part_that_is_copied_and_stored(tmp_path):
    solver = Moments(0.01, ranges=(np.array(RANGES[0]), list(RANGES[1])))
    assert solver.ranges == tuple(tuple(map(float, side)) for side in RANGES)
    assert solver == Moments(0.01, ranges=RANGES)
    found = clone(model(solver)).fit(X, Y)
    found.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.solver == solver
    assert bits(again) == bits(found)
