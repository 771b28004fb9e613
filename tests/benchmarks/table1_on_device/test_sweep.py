# SPDX-License-Identifier: BSD-3-Clause
"""A sweep on the device finds the models of the kernels of the CPU.

The kernels in Triton run step by step here, which takes milliseconds a step, so paths are short.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from benchmarks.table1_on_device.paths import Path

from benchmarks.table1_on_device import pairs, plans
from pairlearn import (
    Constant,
    Exponential,
    Hinge,
    InverseSqrt,
    LastIterate,
    LinearScore,
    Logistic,
    PreviousExample,
    Problem,
    RandomPair,
    Square,
    SquaredHinge,
    Tail,
)
from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.solvers.descent.sweep import Sweep

STEP_SIZES = (0.02, 0.2, 0.2, 2.0, 50.0)
RADII = (np.inf, np.inf, 0.2, 1.0, 0.01)
# An overflow in one model of a tile must not stop the others.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


def sample(n=60, d=5):
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(n, d)) / np.sqrt(d)).astype(np.float32)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) / np.sqrt(d) > 0, 1.0, -1.0)


def both(loss, X, y, n_steps=40, step_sizes=STEP_SIZES, radii=RADII, schedule=None,
         averaging=None, pairing=None):  # fmt: skip
    schedule, averaging = schedule or Constant(1.0), averaging or DelayedByStepSize()
    pairing = pairing or PreviousExample()
    rule = plans.Rule.of(schedule, averaging, n_steps)
    draw = plans.Draw(len(y), plans.portions_of(n_steps), np.random.default_rng(11), y)
    ((left, right),) = plans.draw_plans(pairing, [draw], "cpu")
    factors = None if rule.factors is None else torch.from_numpy(rule.factors)
    averages, last, n_gradients = plans.sweep_paths(
        torch.from_numpy(X),
        torch.from_numpy(y),
        [Path(left, right, rule.shares, factors)],
        loss,
        step_sizes=plans.row_of(step_sizes, rule, "cpu")[None],
        radii=torch.tensor([radii], dtype=torch.float32),
    )
    sweep = Sweep(step_sizes, radii, pairing=pairing, schedule=schedule, averaging=averaging)
    expected = sweep.solve(Problem(LinearScore(), loss), X, y, n_steps=n_steps, rng=11)
    assert n_gradients == expected.n_gradients
    return averages[0].numpy(), last[0].numpy(), expected


def assert_agree(averages, last, expected, tolerance=1e-5):
    assert not expected.diverged.any()
    for a, b in ((averages, expected.averages), (last, expected.w)):
        assert (np.abs(a - b).max(axis=1) <= tolerance * np.abs(b).max(axis=1)).all()


@pytest.mark.parametrize(
    "loss",
    [Hinge(), Hinge(margin=0.3, one_sided=True), SquaredHinge(), Square(margin=2.0), Logistic()],
    ids=repr,
)
def test_losses(loss):
    assert_agree(*both(loss, *sample()))


@pytest.mark.parametrize(
    ("schedule", "averaging", "pairing"),
    [
        (InverseSqrt(2.0), DelayedByStepSize(), PreviousExample()),
        (Constant(0.5), Tail(0.4), RandomPair()),
        (Constant(1.0), LastIterate(), PreviousExample()),
        (InverseSqrt(1.0), DelayedLinear(), RandomPair()),
    ],
    ids=repr,
)
def test_parts(schedule, averaging, pairing):
    parts = {"schedule": schedule, "averaging": averaging, "pairing": pairing}
    assert_agree(*both(Hinge(), *sample(), **parts))


def test_more_models_than_a_tile_more_features_than_a_warp_and_several_launches(monkeypatch):
    monkeypatch.setattr(pairs, "_LAUNCH", 8)
    monkeypatch.setattr(pairs, "_CHUNK", 3)
    many = {"step_sizes": STEP_SIZES * 2, "radii": RADII[::-1] * 2}
    assert_agree(*both(SquaredHinge(), *sample(d=40), **many))


def test_a_path_without_an_active_pair_stays_at_zero():
    X, _ = sample()
    averages, _, _ = both(Hinge(), X, np.ones(len(X)), n_steps=5)
    assert not averages.any()


def test_a_model_that_diverges_is_nan_and_the_others_go_on():
    sizes = {"step_sizes": (1e30, 0.1, 1e30), "radii": (np.inf, np.inf, 1.0)}
    averages, _, expected = both(Square(), *sample(), n_steps=20, **sizes)
    assert np.isnan(averages).any(axis=1).tolist() == expected.diverged.tolist()
    assert np.isnan(averages[[0, 2]]).all()
    assert np.abs(averages[1] - expected.averages[1]).max() < 1e-6


def test_a_loss_that_the_kernel_does_not_have_is_refused():
    class Steeper(Hinge):
        pass

    for loss in (Exponential(), Steeper()):
        with pytest.raises(ValueError, match="not built in"):
            plans.check_built_in(loss)
