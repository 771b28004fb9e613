# SPDX-License-Identifier: BSD-3-Clause
"""Products take one thread where more would stand in each other's way."""

from unittest import mock

import numpy as np
import pytest
import scipy.linalg.blas
import scipy.linalg.lapack
from threadpoolctl import threadpool_info, threadpool_limits

from pairlearn import (
    AUCClassifier,
    EntropyRegressor,
    Hats,
    LinearScore,
    MetricLearner,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
    PairwiseRanker,
    Problem,
    SurvivalRanker,
)
from pairlearn.losses import Hinge
from pairlearn.solvers.blas_threads import OneThread, with_one_thread
from pairlearn.solvers.descent.sweep import Sweep

pytestmark = pytest.mark.filterwarnings("ignore")


def found_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_products_of_wide_sweeps_take_one_thread_and_leave_the_limits_as_they_were():
    X = np.random.default_rng(0).normal(size=(40, 100))
    y = np.array([1.0, -1.0] * 20)
    seen = []

    usual = scipy.linalg.blas.dgemm

    def spied(*arguments, **options):
        seen.append(found_threads())
        return usual(*arguments, **options)

    problem = Problem(LinearScore(), Hinge())
    with threadpool_limits(2, user_api="blas"):
        before = found_threads()
        with mock.patch.object(scipy.linalg.blas, "dgemm", spied):
            Sweep((0.1, 0.2), (1.0, 2.0)).solve(problem, X, y, n_steps=200, rng=0)
        assert seen
        assert all(found == {1} for found in seen)
        assert found_threads() == before


def test_the_last_thread_that_leaves_lifts_the_limit():
    one = OneThread()
    with threadpool_limits(2, user_api="blas"):
        before = found_threads()
        with one:
            with one:
                assert found_threads() == {1}
            assert found_threads() == {1}
        assert found_threads() == before
        with pytest.raises(RuntimeError, match="inside"), one:
            raise RuntimeError("inside")
        assert found_threads() == before


class Model:
    def __init__(self, features="linear"):
        self.features = features

    @with_one_thread
    def fit(self, X, y=None):
        """Say how many threads there are."""
        return found_threads()


@pytest.mark.parametrize(
    ("shape", "features", "n_threads"),
    [
        ((2**10 - 1, 8), "linear", 2),
        ((2**10, 8), "linear", 1),
        ((7, 2**9 - 1), "linear", 1),
        ((3, 2**8), "linear", 2),
        ((50, 4), "auto", 1),
        ((2**26, 64), "linear", 1),
        ((2**26 + 1, 64), "linear", 2),
        ((2**16, 4), Hats(), 1),
        ((2**16 + 1, 4), Hats(), 2),
        ((50,), "linear", 2),
    ],
)
def test_large_products_keep_all_threads_and_small_tables_are_left(shape, features, n_threads):
    table = np.broadcast_to(0.0, shape)
    with threadpool_limits(2, user_api="blas"):
        assert Model(features).fit(table) == {n_threads}
        assert Model(features).fit(X=table) == {n_threads}
        assert Model(features).fit(table.tolist() if len(shape) == 1 else [[0.0]]) == {2}
    assert Model.fit.__doc__ == "Say how many threads there are."


def survived(rng, n):
    return np.array(list(zip(rng.random(n) < 0.7, rng.random(n), strict=True)), "?, f8")


CLASSES = np.arange(120) % 3
TARGETS = {
    AUCClassifier: CLASSES > 0,
    MetricLearner: CLASSES,
    MulticlassAUCClassifier: CLASSES,
    MultilabelAUCClassifier: np.stack([CLASSES > 0, CLASSES > 1], axis=1).astype(int),
    OrdinalAUCClassifier: CLASSES,
    EntropyRegressor: CLASSES.astype(float),
    PairwiseRanker: CLASSES,
    SurvivalRanker: survived(np.random.default_rng(0), 120),
}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("kind", TARGETS)
def test_estimators_enter_and_leave(kind, method):
    if not hasattr(kind(), method):
        pytest.skip("this estimator learns no streams by default")
    X = np.random.default_rng(0).normal(size=(120, 300))
    more = {"classes": [False, True]} if method == "partial_fit" and kind is AUCClassifier else {}
    if kind is PairwiseRanker:
        more = {"qid": np.arange(120) // 12}
    seen = []
    entered = OneThread.__enter__

    def spied(self):
        entered(self)
        seen.append(found_threads())

    with threadpool_limits(2, user_api="blas"), mock.patch.object(OneThread, "__enter__", spied):
        getattr(kind(), method)(X, TARGETS[kind], **more)
        assert seen
        assert all(found == {1} for found in seen)
        assert found_threads() != {1}


def test_a_forked_process_does_not_wait_for_a_thread_that_it_lacks():
    one = OneThread()
    held = one._turns
    with held:
        one._renew()
        with threadpool_limits(2, user_api="blas"), one:
            assert found_threads() == {1}
