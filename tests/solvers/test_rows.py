"""The door before the kernels: rows that would lead one astray are refused, whoever brings them."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from pairlearn import (
    SGD,
    AUCClassifier,
    Ball,
    EntropyRegressor,
    Hinge,
    LinearScore,
    PairwiseRanker,
    PairwiseSGD,
    Problem,
)
from pairlearn.solvers.closed_form.moments import ClassMoments, solve_square_auc
from pairlearn.solvers.closed_form.opauc import OPAUC
from pairlearn.solvers.descent.localized import LocalizedSGD
from pairlearn.solvers.descent.saddle import SOLAM, SPAUC
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.exact.batch import ExactSolver
from pairlearn.solvers.rows import CsrRows, DenseRows, as_rows
from pairlearn.validation import DivergenceError

PROBLEM = Problem(LinearScore(), Hinge())
N, D = 40, 6
RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6)
Y = np.where(np.arange(N) % 2, 1.0, -1.0)

#: Every way by which examples reach a solver.
ENTRIES = {
    "PairwiseSGD": lambda X: PairwiseSGD().solve(PROBLEM, X, Y, n_steps=9, rng=0),
    "Stream": lambda X: PairwiseSGD().start(PROBLEM, D).learn_many(X, Y),
    "Sweep": lambda X: Sweep((0.1,), (math.inf,)).solve(PROBLEM, X, Y, n_steps=9, rng=0),
    "LocalizedSGD": lambda X: LocalizedSGD(1.0).solve(PROBLEM, X, Y, rng=0),
    "SPAUC": lambda X: SPAUC().solve(X, Y, n_passes=1, rng=0),
    "SOLAM": lambda X: SOLAM().solve(X, Y, n_passes=1, rng=0),
    "OPAUC": lambda X: OPAUC().solve(X, Y, rng=0),
    "ExactSolver": lambda X: ExactSolver().solve(X, Y),
    "ClassMoments": lambda X: ClassMoments(D).add(X, Y),
    "solve_square_auc": lambda X: solve_square_auc(X, Y),
    "AUCClassifier": lambda X: AUCClassifier(solver=SGD(step_size=0.1)).fit(X, Y),
    "AUCClassifier stream": lambda X: AUCClassifier().partial_fit(X, Y, classes=[-1.0, 1.0]),
    "PairwiseRanker": lambda X: PairwiseRanker(solver=SGD(step_size=0.1)).fit(X, Y),
    "EntropyRegressor": lambda X: EntropyRegressor().fit(X, Y),
}


def broken(what, kind="csr"):
    X = sp.csr_array(DENSE).asformat(kind)
    if what == "index beyond":
        X.indices[3] = max(X.shape) + 3
    elif what == "index negative":
        X.indices[3] = -2
    elif what == "indptr falls":
        X.indptr[2] = X.indptr[-1] + 1000
    elif what == "indptr begins late":
        X.indptr[0] = 1
    elif what == "indptr ends beyond":
        X.indptr[-1] += 100_000
    elif what == "short indices":
        X.indices = X.indices[:-2]
    elif what == "float indices":
        X.indices = X.indices.astype(float)
    elif what == "short indptr":
        X.indptr = X.indptr[:-3]
    return X


DAMAGES = [
    "index beyond",
    "index negative",
    "indptr falls",
    "indptr begins late",
    "indptr ends beyond",
    "short indices",
    "float indices",
    "short indptr",
]


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sparse_arrays_are_refused(damage, kind):
    with pytest.raises(ValueError, match="The sparse X is damaged"):
        as_rows(broken(damage, kind))


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("damage", ["index beyond", "indptr falls"])
def test_every_entry_refuses_them(entry, damage):
    with pytest.raises(ValueError, match="The sparse X is damaged"):
        ENTRIES[entry](broken(damage))


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("make", [AUCClassifier, PairwiseRanker, EntropyRegressor])
def test_estimators_look_before_scikit_learn_converts_or_multiplies(make, kind):
    model = make(solver=SGD(0.1), random_state=0).fit(sp.csr_array(DENSE), Y)
    learns = [use for use in (model.fit, getattr(model, "partial_fit", None)) if use]
    for use in (*learns, lambda X, y: model.predict(X)):
        with pytest.raises(ValueError, match="The sparse X is damaged"):
            use(broken("index beyond", kind), Y)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_every_entry_refuses_what_is_not_finite(entry, value):
    X = DENSE.copy()
    X[5, 2] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        ENTRIES[entry](X)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_refuses_complex_numbers(entry):
    with pytest.raises(ValueError, match=r"[Cc]omplex"):
        ENTRIES[entry](DENSE + 1j)


def test_complex_labels_weights_and_single_examples_are_refused():
    with pytest.raises(ValueError, match="y holds complex"):
        PairwiseSGD().solve(PROBLEM, DENSE, Y + 1j, n_steps=3)
    with pytest.raises(ValueError, match="example_weight holds complex"):
        PairwiseSGD().solve(PROBLEM, DENSE, Y, n_steps=3, example_weight=np.ones(N) + 1j)
    with pytest.raises(ValueError, match="x holds complex"):
        PairwiseSGD().start(PROBLEM, D).learn_one(DENSE[0] + 1j, 1.0)


@pytest.mark.parametrize("kind", ["coo", "bsr"])
def test_other_formats_are_looked_at_before_scipy_converts_them(kind):
    X = sp.csr_array(DENSE).asformat(kind)
    (X.indices if kind == "bsr" else X.col)[1] = 1000
    with pytest.raises(ValueError, match=r"damaged|indices|index"):
        as_rows(X)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_sound_containers_pass(kind):
    rows = as_rows(sp.csr_array(DENSE).asformat(kind))
    np.testing.assert_allclose(rows.scores(np.eye(D)).T, DENSE)


def test_room_behind_the_last_value_is_no_damage():
    X = sp.csr_array(DENSE)
    X.data, X.indices = np.append(X.data, [7.0, 7.0]), np.append(X.indices, [99, -1])
    rows = as_rows(X)
    assert len(rows.data) == len(rows.indices) == rows.indptr[-1]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [(0, 0), (17, 3), (N - 1, D - 1)])
def test_sums_over_the_columns_notice_what_is_not_finite(value, place):
    X = DENSE.copy()
    X[place] = value
    weights = [None, np.arange(N) % 3 + 0.5, np.where(np.arange(N) == place[0], 0.0, 1.0)]
    for given in (X, X.astype(np.float32), sp.csr_array(X)):
        for weight in weights:
            with pytest.raises(ValueError, match="NaN or infinity"):
                AUCClassifier(solver=SGD(step_size=0.1)).fit(given, Y, weight)


def test_large_and_finite_values_are_sound():
    matrix = sp.csr_array(DENSE)
    with np.errstate(over="ignore"):
        assert as_rows(matrix * 1e200).norms.max() == math.inf
    for value in (math.nan, math.inf):
        matrix.data[7] = value
        with pytest.raises(ValueError, match="NaN or infinity"):
            as_rows(matrix)


def test_rows_without_weight_may_be_too_far_out_for_the_scales_of_the_others():
    from pairlearn.estimators.shared.scaling import scaled_rows

    X, weight = DENSE * 1e-10, np.ones(N)
    X[4] = 1e300
    _, scaled = scaled_rows("auto", as_rows(X), weight)
    assert np.isfinite(scaled.checked().X).all()
    weight[4] = 0.0
    _, scaled = scaled_rows("auto", as_rows(X), weight)
    with pytest.raises(ValueError, match="NaN or infinity"):
        scaled.checked()


@pytest.mark.parametrize(
    "rows",
    [
        CsrRows(np.ones(2), np.array([0, 77]), np.array([0, 2]), D),
        CsrRows(np.ones(2), np.array([0, 1]), np.array([0, 9, 2]), D),
        DenseRows(np.full((3, D), math.nan)),
        DenseRows(np.zeros((3, D), dtype=np.int64)),
        DenseRows(np.zeros(3)),
    ],
)
def test_rows_that_somebody_made_by_hand_are_looked_at(rows):
    with pytest.raises(ValueError, match=r"damaged|NaN|float32"):
        as_rows(rows)


@pytest.mark.parametrize("scale", [1e153, 1e200, 1e307])
@pytest.mark.parametrize("entry", list(ENTRIES)[:9])
def test_overflow_gives_a_finite_model_or_says_so(entry, scale):
    try:
        found = ENTRIES[entry](DENSE / np.abs(DENSE).max() * scale)
    except DivergenceError:
        return
    if isinstance(found, ClassMoments):
        assert np.isfinite(found.covariance).all()
        return
    lost = getattr(found, "diverged", np.zeros(1, dtype=bool))
    average = np.atleast_2d(getattr(found, "averages", getattr(found, "average", None)))
    assert np.isfinite(average[~lost] if len(lost) == len(average) else average).all()


def test_overflow_in_a_ball_ends_inside_the_ball():
    try:
        w = PairwiseSGD(domain=Ball(1.0)).solve(PROBLEM, DENSE * 1e200, Y, n_steps=99, rng=0).w
    except DivergenceError:
        return
    assert np.linalg.norm(w) <= 1.0 + 1e-9


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_distances_of_pairs_that_overflow_are_told(make):
    from pairlearn.solvers.rows import mean_pair_distance

    rows = as_rows(make(DENSE * 1e200))
    with pytest.raises(DivergenceError, match="squares of features overflow"):
        mean_pair_distance(rows)


def test_coefficients_that_overflow_where_the_units_change_are_told():
    stream = PairwiseSGD().start(PROBLEM, D).learn_many(DENSE, Y)
    descent = stream._descent
    descent.w[:] = 1e200
    with pytest.raises(DivergenceError, match="squares of the coefficients overflow"):
        descent.rescale(np.full(D, 1.0))


@pytest.mark.parametrize("seed", range(8))
def test_equal_rows_have_no_spread(seed):
    """Rounding may leave less than nothing."""
    row = np.random.default_rng(seed).normal(size=5)
    X = np.tile(row, (7, 1))
    for rows in (as_rows(X), as_rows(sp.csr_array(X))):
        mean, squared = rows.spread()
        np.testing.assert_allclose(mean, row, rtol=1e-14)
        assert 0.0 <= squared <= 1e-14


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_weighted_distances_are_those_of_repeated_rows(make):
    from pairlearn.solvers.rows import mean_pair_distance

    count = np.random.default_rng(2).integers(0, 4, len(DENSE))
    rows = as_rows(make(DENSE))
    again = rows.take(np.repeat(np.arange(len(count)), count))
    found = mean_pair_distance(rows, 1e99 * count)
    assert found == pytest.approx(mean_pair_distance(again), rel=1e-12)
    np.testing.assert_allclose(rows.spread(count)[0], again.spread()[0], rtol=1e-9, atol=1e-12)
