# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import numpy as np
import pytest

from pairlearn.domains import Box
from pairlearn.losses import Square, SquaredHinge
from pairlearn.scores import LinearScore
from pairlearn.solvers.closed_form.fisher import fisher_direction, with_fisher
from pairlearn.solvers.closed_form.grid import Extents
from pairlearn.solvers.exact.batch import PairObjective, pair_mean
from pairlearn.solvers.rows import DenseRows, check_squares, mean_pair_distance
from pairlearn.solvers.streams.order import OrderWatch
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.top.objectives import Push, worst_share
from pairlearn.solvers.top.stream import TopStream
from pairlearn.validation import DivergenceError


def test_fisher_direction():
    X = np.array([[0.0, 1.0], [0.0, -1.0], [2.0, 1.0], [2.0, -1.0], [1.0, 0.0], [1.0, 0.0]])
    assert (
        repr(fisher_direction(DenseRows(X), np.array([-1.0, -1.0, 1.0, 1.0, -1.0, 1.0])).round(3))
        == "array([3.6, 0. ])"
    )


def test_with_fisher():
    X = np.array([[0.0, 1.0], [0.0, -1.0], [2.0, 1.0], [2.0, -1.0], [1.0, 0.0], [1.0, 0.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    assert (
        repr(with_fisher(np.array([0.0, 1.0]), 0.5, DenseRows(X), y).round(3))
        == "array([0.5, 0.5])"
    )


def test_pairobjective():
    rows, y = DenseRows(np.array([[0.0], [1.0]])), np.array([-1.0, 1.0])
    assert repr(PairObjective(rows, y, SquaredHinge()).minimise(1.0)[0]) == "array([0.5])"
    # (1 - w)^2 + w^2, in closed form: one evaluation.
    w, n_evaluations = PairObjective(rows, y, Square()).minimise(1.0)
    assert (repr(w), n_evaluations) == ("array([0.5])", 1)


def test_pair_mean():
    mean = pair_mean(SquaredHinge(), np.array([True, False]))
    assert repr(mean(np.array([0.5, 0.0]))) == "(0.25, array([-1.,  1.]))"


def test_mean_pair_distance():
    assert (mean_pair_distance(DenseRows(np.array([[1.0], [-1.0]])))) == 2.0


def test_orderwatch():
    import warnings

    watch = OrderWatch()
    watch.note(np.tile([1.0, -1.0], 500))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        watch.note(np.repeat([1.0, -1.0], 5000))
    assert (len(told), watch.has_warned) == (1, True)


def test_check_parts():
    from pairlearn.losses import DistanceHinge

    with pytest.raises(
        ValueError,
        match=r"DistanceHinge\(one_sided=False, bias=1\.0\) is a loss of a squared distance.*",
    ):
        check_parts("Sweep", score=LinearScore(), loss=DistanceHinge())


def test_worst_share():
    assert (
        repr(worst_share(np.array([3.0, 1.0, 2.0, 0.0]), np.full(4, 0.25), 0.5, 0.1))
        == "array([1., 0., 1., 0.])"
    )


def test_topstream():
    from pairlearn.losses import SquaredHinge
    from pairlearn.solvers.rows import DenseRows

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=2000) > 1.5, 1.0, -1.0)
    stream = TopStream(Push(8.0), SquaredHinge(), 3)
    stream.learn(DenseRows(X), y, np.empty(0))
    assert bool(stream.average[0] > 3 * abs(stream.average[1:]).max())


def test_check_squares():
    with pytest.raises(DivergenceError, match=r"must be at most 1e\+70, got 1e\+200: "):
        check_squares(DenseRows(np.array([[1.0], [1e200]])))


def test_running_scales():
    scales = RunningScales(2)
    rows = DenseRows(np.array([[1e6, 5.0], [3e6, 5.0]]))
    found = [(part, scales.apply(rows).X[part].tolist()) for part, _ in scales.segments(rows)]
    assert found == [(slice(0, 1), [[0.0, 0.0]]), (slice(1, 2), [[1.0, 0.0]])]


def test_a_domain_with_a_method_of_its_own_is_named():
    class Odd(Box):
        def project(self, w):
            return w

    for solver in ("PairwiseSGD", "SOLAM"):
        with pytest.raises(ValueError, match="Odd changes project of CoordinatewiseDomain"):
            check_parts(solver, score=LinearScore(), domain=Odd(0.0, 1.0))
    with pytest.raises(ValueError, match=r"SOLAM does not run the domain .* use PairwiseSGD"):
        check_parts("SOLAM", score=LinearScore(), domain=Box(0.0, 1.0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extents_of_columns(dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(3000, 4)) * 10.0 ** rng.integers(-30, 30, (3000, 4))).astype(dtype)
    X[::7, 1] = 0.0
    found, wide = Extents.of(X), X.astype(np.float64)
    np.testing.assert_array_equal(found.low, wide.min(axis=0))
    np.testing.assert_array_equal(found.high, wide.max(axis=0))
    np.testing.assert_array_equal(found.n_values, (wide != 0.0).sum(axis=0))
    np.testing.assert_array_equal(found.exponents, np.frexp(wide)[1].sum(axis=0))
