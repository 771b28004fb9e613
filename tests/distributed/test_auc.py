# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation by passes: the model of one machine, whatever the partitions look like."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from pairlearn import AUCClassifier, Exact, Hinge, load_model, roc_auc
from pairlearn.distributed import ByPasses, train_auc
from pairlearn.estimators.shared.scaling import fit_scaling
from pairlearn.metrics import pair_risk
from pairlearn.solvers import ExactSolver
from pairlearn.solvers.rows import DenseRows


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 4)) * [1.0, 100.0, 0.01, 1.0] + [0.0, 500.0, 0.0, 0.0]
    X[:, 3] = rng.standard_t(2, size=1500)
    signal = X[:, 0] + X[:, 2] * 60.0 + 0.3 * X[:, 3]
    return X, np.where(signal + rng.normal(size=1500) > 1.0, "yes", "no")


def engine(X, y, order, n_parts=5, weight=None):
    parts = np.array_split(order, n_parts)

    def run(statistic):
        return statistic.merge_all(
            statistic.of_part(k).partial_state(
                X[part], y[part], None if weight is None else weight[part]
            )
            for k, part in enumerate(parts)
        )

    return run


def orders(X, y):
    return {
        "shuffled": np.arange(len(y)),
        "by label": np.argsort(y, kind="stable"),
        "by feature": np.argsort(X[:, 0]),
        "by score": np.argsort(X[:, 0] + 60 * X[:, 2] + 0.3 * X[:, 3]),
    }


def test_the_square_loss_has_twelve_digits_of_one_machine(table):
    X, y = table
    expected = AUCClassifier(loss="square", solver=Exact(ridge=0.01)).fit(X, y).coef_
    for order in orders(X, y).values():
        found = train_auc(engine(X, y, order), loss="square", solver=ByPasses(0.01), random_state=0)
        np.testing.assert_allclose(found.model.coef_, expected, rtol=1e-11)
        assert found.n_passes == 3


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.thorough
def test_other_losses_reach_the_objective_of_the_exact_solver(table, loss):
    X, y = table
    rows = DenseRows(X)
    scaling = fit_scaling(rows)
    Z, signs = scaling.apply(rows).X, np.where(y == "yes", 1.0, -1.0)
    exact = ExactSolver(loss, ridge=0.01).solve(Z, signs).w
    aucs = []
    n = len(y)
    n_positive = int((signs > 0).sum())
    factor = n * (n - 1) / (2 * n_positive * (n - n_positive))

    def objective(v):
        return factor * pair_risk(loss, Z @ v, signs) + 0.01 * v @ v

    for order in orders(X, y).values():
        found = train_auc(engine(X, y, order), loss=loss, solver=ByPasses(0.01), random_state=0)
        v = scaling.from_user(found.model.coef_[0])
        assert objective(v) <= objective(exact) * (1 + 1e-4)
        assert found.objective <= objective(v) + 1e-9
        assert objective(v) <= found.objective + found.binning_error + 1e-9
        aucs.append(found.model.score(X, y))
        assert abs(aucs[-1] - found.training_auc) <= found.auc_half_width + 1e-12
    assert np.ptp(aucs) < 1e-4
    assert abs(aucs[0] - roc_auc(y, Z @ exact)) < 1e-4


def test_the_hinge_itself_is_minimised(table):
    X, y = table
    found = train_auc(
        engine(X, y, np.arange(len(y))), loss="hinge", solver=ByPasses(0.01), random_state=0
    )
    rows = DenseRows(X)
    scaling = fit_scaling(rows)
    Z, signs = scaling.apply(rows).X, np.where(y == "yes", 1.0, -1.0)
    v = scaling.from_user(found.model.coef_[0])
    value = pair_risk(Hinge(), Z @ v, signs) + 1e-9
    rng = np.random.default_rng(0)
    scale = 2 * (y == "yes").mean() * (y == "no").mean()
    for _ in range(50):
        other = v + rng.normal(size=4) * 0.02
        assert value + scale * 0.01 * v @ v <= (
            pair_risk(Hinge(), Z @ other, signs) + scale * 0.01 * other @ other + 2e-4 * value
        )


def test_weights_count_as_copies_do(table):
    X, y = table
    weight = np.arange(len(y)) % 3 * 1.0
    copies = np.repeat(np.arange(len(y)), weight.astype(int))
    order = np.arange(len(y))
    weighted = train_auc(engine(X, y, order, weight=weight), loss="square", solver=ByPasses(0.1))
    copied = train_auc(
        engine(X[copies], y[copies], np.arange(len(copies))), loss="square", solver=ByPasses(0.1)
    )
    np.testing.assert_allclose(weighted.model.coef_, copied.model.coef_, rtol=1e-10)
    assert weighted.training_auc == pytest.approx(copied.training_auc, abs=1e-12)


def test_the_model_is_an_ordinary_one(table, tmp_path):
    X, y = table
    names = ["a", "b", "c", "d"]
    model = train_auc(engine(X, y, np.arange(len(y))), random_state=0, feature_names=names).model
    model.save(tmp_path / "model.safetensors")
    import pandas as pd

    frame = pd.DataFrame(X, columns=names)
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert model.ridge_ == model.choice_.ridge
    assert model.held_out_auc_ == pytest.approx(model.score(frame, y), abs=0.03)
    alone = AUCClassifier(solver=Exact(ridge=model.ridge_)).fit(frame, y)
    assert model.score(frame, y) == pytest.approx(alone.score(frame, y), abs=1e-4)
    assert np.abs(model.predict_proba(frame) - alone.predict_proba(frame)).max() < 0.01
    # The best threshold is flat; what it is the best of is not.
    balanced = [balanced_accuracy_score(y, one.predict(frame)) for one in (model, alone)]
    assert balanced[0] == pytest.approx(balanced[1], abs=2e-3)
    assert again.data_fingerprint_ == model.data_fingerprint_


def test_many_features_take_two_passes_an_evaluation(table, monkeypatch):
    X, y = table
    run = engine(X, y, np.arange(len(y)))
    one = train_auc(run, solver=ByPasses(0.01), random_state=0)
    monkeypatch.setattr("pairlearn.distributed.auc._MANY_FEATURES", 3)
    two = train_auc(run, solver=ByPasses(0.01), random_state=0)
    np.testing.assert_allclose(two.model.coef_, one.model.coef_, rtol=1e-3)
    assert two.n_passes > one.n_passes


def test_what_cannot_be_asked_for_is_refused(table):
    X, y = table
    run = engine(X, y, np.arange(len(y)))
    with pytest.raises(ValueError, match="convex loss of opposite pairs"):
        train_auc(run, loss="loglink")
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        train_auc(run, solver=ByPasses(-1.0))
    with pytest.raises(ValueError, match='scaling must be "auto" or None'):
        train_auc(run, scaling="standard")
    with pytest.raises(ValueError, match="one class"):
        train_auc(engine(X, np.full(len(y), "no"), np.arange(len(y))))
    with pytest.warns(RuntimeWarning, match="raise max_passes"):
        train_auc(run, loss="logistic", solver=ByPasses(1e-4, 1e-12, max_passes=1))


def test_data_in_which_nothing_varies_get_no_model_but_a_warning():
    X, y = np.ones((20, 2)), np.arange(20) % 2
    with pytest.warns(UserWarning, match="None of the 2 features varies"):
        fit = train_auc(engine(X, y, np.arange(20)), solver=ByPasses(1.0))
    assert not fit.model.coef_.any()
    assert fit.training_auc == 0.5


def test_the_unit_of_weights_changes_no_probability(table):
    X, y = table
    order = np.arange(len(y))
    expected, found = (
        train_auc(
            engine(X, y, order, weight=np.full(len(y), unit)), loss="square", solver=ByPasses(0.1)
        ).model.predict_proba(X)
        for unit in (1.0, 1e-6)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)
