# SPDX-License-Identifier: BSD-3-Clause
"""Units do not matter: changes of scale, shifts and constant columns leave the AUC where it was."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.preprocessing import StandardScaler

from pairlearn import (
    SGD,
    AUCClassifier,
    Exact,
    Hats,
    Hinge,
    LinearScore,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
    PairwiseSGD,
    Problem,
)
from pairlearn.estimators.shared.scaling import fit_scaling
from pairlearn.solvers.rows import DenseRows, as_rows

#: What a change of units may move the test AUC by: a row in other units has other bytes, and comes
#: to another fold, so that folds may choose another ridge or step size.
LAW = 0.01


def sample(n=600, *, seed=0):
    """Return features of uneven scales, among them a rare indicator, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1.0, 30.0, 0.01, 1.0, 1.0]
    X[:, 4] = rng.random(n) < 0.02
    y = (X[:, 0] + X[:, 1] / 30.0 + 2.0 * X[:, 4] + rng.normal(size=n) > 0.8).astype(int)
    return X, y


def words(n=600, d=2000, *, seed=0):
    """Return weights of words, a few in each text and most of them rare, and labels."""
    rng = np.random.default_rng(seed)
    share = 1.0 / (np.arange(d) + 5.0)
    counts = scipy.sparse.csr_array(rng.random((n, d)) < 12.0 * share).astype(float)
    frequent = rng.normal(size=30)
    y = counts[:, :30] @ frequent + rng.normal(size=n) > 0.0
    counts.data *= rng.uniform(0.5, 1.5, len(counts.data))
    return counts, y.astype(int)


def held_out_auc(model, X, y):
    return model.fit(X[::2], y[::2]).score(X[1::2], y[1::2])


MODELS = {
    "auto": lambda: AUCClassifier(random_state=0),
    "sgd": lambda: AUCClassifier(solver="sgd", random_state=0),
    "exact square": lambda: AUCClassifier(loss="square", solver="exact", random_state=0),
    "given step": lambda: AUCClassifier(solver=SGD(step_size=0.1, n_passes=20), random_state=0),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.thorough
def test_law_of_units(kind):
    X, y = sample()
    expected = held_out_auc(MODELS[kind](), X, y)
    assert expected > 0.8
    changed = {f"times 1e{k}": X * 10.0**k for k in (-6, -3, 1, 6)}
    changed["each its own"] = X * 10.0 ** np.array([-6, 6, 3, 0, -2])
    changed["shifted"] = X + np.array([1e4, -1e5, 7.0, 0.0, 3.0])
    changed["scaled"] = StandardScaler().fit_transform(X)
    changed["with a constant"] = np.column_stack([X, np.full(len(X), 1e7)])
    for name, Z in changed.items():
        assert abs(held_out_auc(MODELS[kind](), Z, y) - expected) < LAW, name


@pytest.mark.parametrize("kind", ["auto", "sgd", "given step"])
@pytest.mark.thorough
def test_sparse_rows_are_scaled_alike(kind):
    X, y = sample()
    X[np.abs(X) < 0.3] = 0.0
    expected = held_out_auc(MODELS[kind](), X, y)
    for factor in (1.0, 10.0 ** np.array([-6, 6, 3, 0, -2])):
        found = held_out_auc(MODELS[kind](), scipy.sparse.csr_array(X * factor), y)
        assert abs(found - expected) < (0.003 if kind == "given step" else 0.015)


@pytest.mark.parametrize("factor", [1e150, 1e-150, 1e-300, 1e300])
def test_extreme_units(factor):
    X, y = sample()
    expected = held_out_auc(AUCClassifier(solver=Exact(ridge=0.01)), X, y)
    found = held_out_auc(AUCClassifier(solver=Exact(ridge=0.01)), X * factor, y)
    assert abs(found - expected) < 1e-6  # with a ridge folds choose nothing
    assert abs(held_out_auc(MODELS["auto"](), X * factor, y) - expected) < LAW


def test_single_precision_far_below_one():
    X, y = sample()
    X = X.astype(np.float32)
    expected = held_out_auc(MODELS["auto"](), X, y)
    assert abs(held_out_auc(MODELS["auto"](), X * np.float32(1e-30), y) - expected) < LAW


@pytest.mark.parametrize("kind", ["auto", "sgd"])
def test_constant_data_are_named(kind):
    y = np.arange(40) % 2
    with pytest.warns(UserWarning, match=r"None of the 3 features varies.*same score"):
        model = MODELS[kind]().fit(np.full((40, 3), 1.1), y)
    assert model.score(np.full((40, 3), 1.1), y) == 0.5
    assert (model.coef_ == 0.0).all()


def test_outliers_that_hide_a_feature_are_named():
    X, y = sample()
    X[7, 1] = 1e9
    with pytest.warns(UserWarning, match=r"feature\(s\) 1 \(counted from 0\).*logarithm"):
        AUCClassifier(random_state=0).fit(X, y)
    AUCClassifier(random_state=0).fit(np.sign(X) * np.log1p(np.abs(X)), y)


def test_coefficients_are_in_the_units_of_the_user():
    X, y = sample()
    factor = 10.0 ** np.array([-6, 6, 3, 0, -2])
    w = AUCClassifier(solver=Exact(ridge=0.01)).fit(X, y).coef_
    v = AUCClassifier(solver=Exact(ridge=0.01)).fit(X * factor, y).coef_
    assert np.allclose(w, v * factor, rtol=1e-6)


def test_a_rare_indicator_is_not_blown_up():
    X, _ = sample()
    scaled = fit_scaling(DenseRows(X)).apply(DenseRows(X)).X
    assert np.abs(scaled[:, 4]).max() < 12.0
    assert np.mean(scaled.var(axis=0)) == pytest.approx(1.0)


def test_blocks_of_rows_are_scaled_as_one(monkeypatch):
    from pairlearn.estimators.shared import scaling

    X, counts = sample(200)[0], np.random.default_rng(0).integers(0, 4, 200).astype(float)
    whole = fit_scaling(DenseRows(X), counts)
    monkeypatch.setattr(scaling, "_NUMBERS", 100)
    parts = fit_scaling(DenseRows(X), counts)
    np.testing.assert_allclose(whole.factor, parts.factor, rtol=1e-12)
    np.testing.assert_allclose(whole.centre, parts.centre, rtol=1e-12, atol=1e-15)


def test_in_text_the_spread_of_a_scaled_column_is_a_power_of_its_share():
    X = words(300, 4000)[0]
    X.data[:] = 1.0  # presence: neither lengths nor repeats change the scales
    X.data[::50] = 0.0  # zeros that are stored count as absent
    scaling, dense = fit_scaling(as_rows(X)), X.toarray()
    varies = scaling.factor > 0.0
    found = (dense * scaling.weights).std(axis=0)[varies]
    wanted = np.minimum(1.0, 2.0 * (dense != 0.0).mean(axis=0)[varies]) ** 0.15
    np.testing.assert_allclose(found / found[0], wanted / wanted[0], rtol=1e-9)
    np.testing.assert_allclose((found**2).mean(), 1.0, rtol=1e-9)


def test_scales_of_text_do_not_take_up_the_lengths_of_rows():
    there, rng = words(300, 4000)[0], np.random.default_rng(1)
    there.data[:] = 1.0
    length = scipy.sparse.diags_array(np.exp(rng.normal(0.0, 0.5, 300)))
    X = (length @ there).tocsr()
    rare = (plain := fit_scaling(as_rows(there)).factor) > 0.0
    share = X.count_nonzero(axis=0) / 300
    rare &= share < 0.5
    spread = np.sqrt((X.multiply(X)).mean(axis=0) - X.mean(axis=0) ** 2)
    taken_up = np.std(np.log(spread[rare] / np.sqrt((share * (1.0 - share))[rare])))
    found = fit_scaling(as_rows(X)).factor
    assert np.std(np.log(found[rare] / plain[rare])) < 0.5 * taken_up
    # Neither units, nor the order and the storage of rows, nor how they are repeated matter.
    unit = 10.0 ** rng.uniform(-6, 6, 4000)
    units = scipy.sparse.diags_array(unit)
    np.testing.assert_allclose(fit_scaling(as_rows((X @ units).tocsr())).factor * unit, found, 1e-9)
    np.testing.assert_allclose(fit_scaling(as_rows(X[::-1])).factor, found, 1e-9)
    np.testing.assert_allclose(fit_scaling(as_rows(X.toarray())).factor, found, 1e-9)
    times = rng.integers(0, 3, 300)
    again = fit_scaling(as_rows(X[np.repeat(np.arange(300), times)])).factor
    np.testing.assert_allclose(fit_scaling(as_rows(X), 0.125 * times).factor, again, 1e-9)


def test_a_word_that_is_repeated_is_louder_up_to_a_bound():
    X = words(300, 4000)[0]
    X.data[:] = 1.0
    there = X.tocsc()
    rare = np.flatnonzero(np.diff(there.indptr) == 6)[:4]
    for k, most in zip(rare, (1.0, 4.0, 1e9, 1e200), strict=True):
        there.data[there.indptr[k]] = most
    scaled = fit_scaling(as_rows(there.tocsr())).apply(as_rows(there.tocsr())).matrix
    spread = scaled.toarray()[:, rare].std(axis=0)
    assert spread[0] < 0.9 * spread[1] < spread[2] < 12.0 * spread[0]
    assert spread[3] < 12.0 * spread[0]


@pytest.mark.thorough
def test_rounding_does_not_pass_for_variance():
    """A constant that no sum represents exactly, and what a scaler leaves of it."""
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        X = np.column_stack([np.full(1000, 0.1), rng.normal(size=1000)]).astype(dtype)
        X[:, 0] *= rng.choice([1.0, 1.0 + np.finfo(dtype).eps], 1000)
        for storage in (X, scipy.sparse.csr_array(X)):
            assert fit_scaling(as_rows(storage)).factor[0] == 0.0


@pytest.mark.parametrize("kind", ["auto", "sgd"])
@pytest.mark.thorough
def test_rare_words_do_not_drown_frequent_ones(kind):
    from sklearn.linear_model import LogisticRegression

    from pairlearn.metrics import roc_auc

    X, y = words()
    found = held_out_auc(MODELS[kind](), X, y)
    rival = LogisticRegression(max_iter=1000).fit(X[::2], y[::2])
    bar = roc_auc(y[1::2], rival.decision_function(X[1::2]))
    # These texts want softer rare words than usual ones. Deviations alone, with which rare words
    # drown the others, are far behind.
    bare = AUCClassifier(solver=kind, scaling=None, random_state=0)
    by_deviation = StandardScaler(with_mean=False).fit(X[::2]).transform(X)
    alone = held_out_auc(bare, (by_deviation / np.sqrt(X.shape[1])).tocsr(), y)
    assert found > max(bar - 0.12, alone + 0.13) - 0.01
    units = scipy.sparse.diags_array(10.0 ** np.random.default_rng(1).uniform(-6, 6, X.shape[1]))
    assert abs(held_out_auc(MODELS[kind](), (X @ units).tocsr(), y) - found) < 3 * LAW


@pytest.mark.parametrize("seed", range(3))
def test_sparse_and_dense_scales_agree(seed):
    X, _ = sample(seed=seed)
    X[np.abs(X) < 0.3] = 0.0
    if seed:
        X = words(200, 300, seed=seed)[0].toarray()
        X[:, :5] += seed - 1
    dense, sparse = fit_scaling(as_rows(X)), fit_scaling(as_rows(scipy.sparse.csr_array(X)))
    assert np.allclose(dense.factor, sparse.factor, rtol=1e-12)
    assert (sparse.centre == 0.0).all()


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array])
def test_weights_count_as_repetitions(store):
    X, _ = sample()
    X[np.abs(X) < 0.3] = 0.0
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    repeated = fit_scaling(as_rows(store(np.repeat(X, counts, axis=0))))
    weighted = fit_scaling(as_rows(store(X)), counts.astype(float))
    assert np.allclose(weighted.factor, repeated.factor, rtol=1e-12)
    assert np.allclose(weighted.centre, repeated.centre, rtol=1e-12)


def test_the_bare_algorithm_is_one_argument_away():
    from pairlearn import Constant

    X, y = sample()
    model = AUCClassifier(solver=SGD(step_size=0.01, n_passes=3), scaling=None, random_state=7).fit(
        X, y
    )
    solution = PairwiseSGD(schedule=Constant(0.01)).solve(
        Problem(LinearScore(), Hinge()), X, np.where(y == 1, 1.0, -1.0), n_passes=3, rng=7
    )
    assert np.array_equal(model.coef_[0], solution.average)


def test_what_was_chosen_and_why():
    X, y = sample()
    exact = AUCClassifier(random_state=0).fit(X, y)
    assert exact.solver_ == "exact"
    assert exact.choice_.evidence.n_folds == 15 - 10 * (min(np.bincount(y)) >= 60)
    best = max(exact.choice_.tried, key=lambda one: one.auc)
    assert exact.ridge_ == best.values["ridge"]
    assert exact.held_out_auc_ == best.auc
    assert 0 < best.standard_error < 0.1
    sgd = AUCClassifier(solver="sgd", random_state=0).fit(X, y)
    assert (sgd.solver_, type(sgd.loss_).__name__) == ("sgd", "Hinge")
    assert len(sgd.choice_.tried) == 32


def test_threads_do_not_change_a_bit():
    X, y = sample()
    one = AUCClassifier(random_state=0).fit(X, y)
    two = AUCClassifier(random_state=0, n_jobs=2).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solver": "exact", "warm_start": True}, r"Exact\(\) would ignore warm_start"),
        ({"solver": "moments", "callbacks": [print]}, r"Moments\(\) would ignore callbacks"),
        ({"solver": "exact", "loss": "hinge"}, "Hinge has a kink"),
        ({"scaling": "minmax"}, 'scaling must be "auto" or None'),
        ({"n_jobs": 0}, "n_jobs must be a number of threads"),
    ],
)
def test_what_would_be_ignored_is_refused(given, message):
    X, y = sample(n=60)
    with pytest.raises(ValueError, match=message):
        AUCClassifier(**given).fit(X, y)


def test_arrays_and_lists_are_the_same_to_fit():
    X, y = sample(n=80)
    a, b = (AUCClassifier(random_state=0).fit(*data) for data in ((X, y), (X.tolist(), y.tolist())))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.n_features_in_ == b.n_features_in_ == X.shape[1]


@pytest.mark.parametrize(
    "kind", [MulticlassAUCClassifier, OrdinalAUCClassifier, MultilabelAUCClassifier]
)
def test_folds_have_no_shift_of_their_own_far_from_zero(kind):
    # Probabilities come from scores of several folds, whose coefficients differ.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=150), [-0.6, 0.6])
    y = np.column_stack([y > 0, y > 1]) if kind is MultilabelAUCClassifier else y
    far = X + 50.0
    for scaling in ("auto", None):
        found = [
            kind(solver=Exact(0.1), scaling=scaling, random_state=0).fit(rows, y).predict_proba(far)
            for rows in (far, scipy.sparse.csr_matrix(far))
        ]
        np.testing.assert_allclose(found[0], found[1], atol=1e-9)
        truth = y if y.ndim == 2 else y[:, np.newaxis] == np.arange(3)
        assert np.abs(found[0] - truth).mean() < 0.3


@pytest.mark.parametrize("features", [Hats(4), Hats(4, monotone={0: 1})])
def test_curves_of_constants_by_moments_say_so(features):
    X, y = np.full((12, 3), 7.0), np.arange(12) % 2
    with pytest.warns(UserWarning, match=r"None of the 3 features varies.*same score"):
        model = AUCClassifier(features=features, solver="moments", random_state=0).fit(X, y)
    assert len(set(model.decision_function(X).tolist())) == 1


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_matrix])
def test_values_that_hardly_count_do_not_stop_a_fit(store):
    X, weight = np.zeros((100, 2)), np.ones(100)
    X[3, 0], X[5, 1] = 1.0, 2.0
    for small in (1e-14, 1e-16, 1e-18):
        weight[[3, 5]] = small
        found = fit_scaling(as_rows(store(X)), weight).weights
        np.testing.assert_allclose(found / found[0], [1.0, 0.5], rtol=1e-9)
