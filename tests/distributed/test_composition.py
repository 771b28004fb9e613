# SPDX-License-Identifier: BSD-3-Clause
"""Estimators on a cluster are composed of objects: parameters, copies and refusals."""

import numpy as np
import pytest
from sklearn.base import clone

from pairlearn import SGD, Costs, Exact, load_model
from pairlearn.distributed import (
    ByPasses,
    DaskAUCClassifier,
    DaskMetricLearner,
    DaskPairwiseRanker,
    OnePass,
    QueryPasses,
    train_auc,
    train_metric,
    train_ranker,
)

pytest.importorskip("dask", reason="needs the extra dask")


@pytest.mark.parametrize(
    ("make", "solver", "field"),
    [
        (DaskAUCClassifier, ByPasses(0.1, n_bins=64), "n_bins"),
        (DaskPairwiseRanker, QueryPasses(0.1, max_passes=7), "max_passes"),
        (DaskMetricLearner, OnePass(0.1, max_classes=3), "max_classes"),
    ],
)
def test_parameters_reach_inside(make, solver, field):
    model = make(solver=solver)
    assert model.get_params()[f"solver__{field}"] == getattr(solver, field)
    assert f"solver={solver!r}" in repr(model)
    copy = clone(model)
    assert copy.solver == solver
    assert copy.set_params(solver__ridge=0.5).solver == solver.with_params(ridge=0.5)
    assert model.solver is solver
    # A name stands for the object with its defaults.
    assert make().set_params(solver__ridge=0.5).solver == type(solver)(0.5)
    assert len(make().get_params(deep=False)) <= 14


def engine(X, y, **more):
    return lambda statistic: statistic.of_part(0).partial_state(X, y, **more)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    return X, np.where(X[:, 0] + rng.normal(size=200) > 0, "yes", "no")


def test_a_plain_exact_solver_lends_its_ridge(table):
    X, y = table
    pairs = [
        (train_auc(engine(X, y), loss="square", solver=solver).model.coef_)
        for solver in (Exact(0.1), ByPasses(0.1))
    ]
    np.testing.assert_array_equal(*pairs)
    qid = np.repeat(np.arange(20), 10)
    run = engine(X, (y == "yes") * 1, qid=qid)
    # Rankers have a fixed ridge by default.
    np.testing.assert_array_equal(
        train_ranker(run, solver="exact").coef_, train_ranker(run, solver=QueryPasses(1e-4)).coef_
    )
    metrics = [
        train_metric(engine(X, y), solver=solver).components_
        for solver in (Exact(0.1), OnePass(0.1))
    ]
    np.testing.assert_array_equal(*metrics)


@pytest.mark.parametrize("train", [train_auc, train_ranker, train_metric])
def test_other_solvers_are_refused(train, table):
    with pytest.raises(ValueError, match=r"takes solver='\w+', a \w+ or Exact\(ridge\), got SGD"):
        train(engine(*table), solver=SGD())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ByPasses(-1.0), 'ridge must be at least 0 or "auto", got -1.0'),
        (lambda: QueryPasses("auto"), "ridge must be at least 0, got 'auto'"),
        (lambda: ByPasses(tolerance=0.0), "tolerance must be a positive number"),
        (lambda: ByPasses(n_bins=1), "n_bins must be at least 2"),
        (lambda: QueryPasses(max_passes=0), "max_passes must be at least 1"),
        (lambda: OnePass(sample_size=0), "sample_size must be at least 1"),
    ],
)
def test_settings_are_checked_where_they_are_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_model_file_holds_the_parts(table, tmp_path):
    X, y = table
    model = train_auc(
        engine(X, y), solver=ByPasses(0.1), decision=Costs(1.0, 5.0), random_state=0
    ).model
    model.save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert (back.solver, back.decision) == (Exact(0.1), Costs(1.0, 5.0))
    assert (back.choice_, back.loss_, back.solver_) == (model.choice_, model.loss_, model.solver_)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
