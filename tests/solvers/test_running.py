# SPDX-License-Identifier: BSD-3-Clause
"""Solvers of one example a step tell callbacks what `PairwiseSGD` does."""

import numpy as np
import pytest

from pairlearn.averaging import DelayedByStepSize, DelayedLinear, LastIterate, Tail, Uniform
from pairlearn.schedules import InverseSqrt
from pairlearn.solvers.closed_form.opauc import OPAUC
from pairlearn.solvers.descent.saddle import SOLAM, SPAUC
from pairlearn.validation import DivergenceError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = np.where(X[:, 0] + RNG.normal(size=200) > 0, 1.0, -1.0)
SOLVERS = [SPAUC, SOLAM, OPAUC]


@pytest.mark.parametrize(
    "averaging", [DelayedByStepSize(), DelayedLinear(), LastIterate(), Uniform()]
)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("step", [1, 2, 120])
def test_the_model_on_the_way_is_that_of_a_run_which_ends_there(solver, averaging, step):
    learner = solver(schedule=InverseSqrt(0.1), averaging=averaging)
    seen = []
    whole = learner.solve(
        X, Y, n_passes=1, rng=5, pauses=[step],
        callbacks=[lambda run: seen.append((run.step, run.average, run.w, run.n_gradients))],
    )  # fmt: skip
    ended = learner.solve(X, Y, n_passes=(step - 0.5) / len(Y), rng=5)
    assert [call[0] for call in seen] == [step, len(Y)]
    np.testing.assert_allclose(seen[0][1], ended.average, rtol=1e-11, atol=1e-15)
    np.testing.assert_array_equal(seen[0][2], ended.w)
    assert seen[0][3] == ended.trace.n_gradients
    np.testing.assert_array_equal(seen[1][1], whole.average)
    # The path is drawn beforehand: looking changes nothing.
    silent = learner.solve(X, Y, n_passes=1, rng=5)
    np.testing.assert_array_equal(whole.average, silent.average)


def test_a_tail_that_has_not_begun_is_the_iterate():
    seen = []
    SPAUC(averaging=Tail(0.5)).solve(
        X, Y, n_passes=1, rng=0, pauses=[50, 150],
        callbacks=[lambda run: seen.append((run.average, run.w, run.risk))],
    )  # fmt: skip
    np.testing.assert_allclose(seen[0][0], seen[0][1], rtol=1e-12)
    assert not np.allclose(seen[1][0], seen[1][1])
    assert np.isnan(seen[0][2])


@pytest.mark.parametrize("solver", SOLVERS)
def test_interrupt_gives_what_there_is(solver):
    def interrupt(running):
        raise KeyboardInterrupt

    learner = solver(averaging=Uniform())
    with pytest.warns(RuntimeWarning, match="Interrupted after 80 of 200 steps"):
        found = learner.solve(X, Y, n_passes=1, rng=3, pauses=[80], callbacks=[interrupt])
    assert found.trace.interrupted
    expected = learner.solve(X, Y, n_passes=79.5 / len(Y), rng=3)
    np.testing.assert_allclose(found.average, expected.average, rtol=1e-11)


def test_divergence_names_the_step_of_the_run():
    wild = SPAUC(InverseSqrt(1e9))
    with pytest.raises(DivergenceError) as whole:
        wild.solve(X, Y, rng=0)
    with pytest.raises(DivergenceError) as parts:
        wild.solve(X, Y, rng=0, pauses=[2, 7, 12])
    assert str(whole.value) == str(parts.value)
