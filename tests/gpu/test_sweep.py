# SPDX-License-Identifier: BSD-3-Clause
"""A sweep on the device finds the models of the kernels of the CPU.

The kernels in Triton run step by step here, which takes milliseconds a step, so paths are short.
"""

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("triton")

from pairlearn import (
    Constant,
    Exponential,
    FifoBuffer,
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
from pairlearn.gpu import pairs
from pairlearn.solvers.descent.sweep import Sweep

STEP_SIZES = (0.02, 0.2, 0.2, 2.0, 50.0)
RADII = (np.inf, np.inf, 0.2, 1.0, 0.01)
# An overflow in one model of a tile must not stop the others.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


def sample(n=60, d=5, dtype=np.float32):
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(n, d)) / np.sqrt(d)).astype(dtype)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) / np.sqrt(d) > 0, 1.0, -1.0)


def both(loss, X, y, *, n_steps=40, step_sizes=STEP_SIZES, radii=RADII, **parts):
    weight = parts.pop("example_weight", np.empty(0))
    return [
        Sweep(step_sizes, radii, device=device, **parts).solve(
            Problem(LinearScore(), loss), X, y, n_steps=n_steps, rng=11, example_weight=weight
        )
        for device in ("cuda", "cpu")
    ]


def assert_agree(found, expected, tolerance=1e-5):
    assert not expected.diverged.any()
    assert found.n_gradients == expected.n_gradients
    assert not found.diverged.any()
    for a, b in ((found.averages, expected.averages), (found.w, expected.w)):
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
    X, y = sample(d=40)
    many = {"step_sizes": STEP_SIZES * 2, "radii": RADII[::-1] * 2}
    assert_agree(*both(SquaredHinge(), X, y, **many))


def test_weights_multiply_the_steps(rng):
    X, y = sample()
    weight = rng.integers(3, size=len(y)).astype(np.float64)
    assert_agree(*both(Logistic(), X, y, example_weight=weight))


def test_float64_rows_are_rounded_once():
    X, y = sample(dtype=np.float64)
    assert_agree(*both(Hinge(), X, y))


def test_labels_of_many_grades(rng):
    X, _ = sample()
    assert_agree(*both(SquaredHinge(), X, rng.integers(4, size=len(X)).astype(np.float64)))


def test_a_path_without_an_active_pair_stays_at_zero():
    X, _ = sample()
    found, _ = both(Hinge(), X, np.ones(len(X)), n_steps=5)
    assert not found.averages.any()
    assert found.n_gradients == 0


def test_a_model_that_diverges_is_nan_and_the_others_go_on():
    X, y = sample()
    sizes = {"step_sizes": (1e30, 0.1, 1e30), "radii": (np.inf, np.inf, 1.0)}
    found, expected = both(Square(), X, y, n_steps=20, **sizes)
    assert found.diverged.tolist() == expected.diverged.tolist() == [True, False, True]
    assert np.isnan(found.averages[[0, 2]]).all()
    assert np.abs(found.averages[1] - expected.averages[1]).max() < 1e-6


def test_what_the_device_cannot_do_is_refused():
    X, y = sample()
    with pytest.raises(ValueError, match=r'Exponential.*not built in.*device="cpu"'):
        both(Exponential(), X, y)
    with pytest.raises(ValueError, match=r"dense rows; pass X.toarray\(\)"):
        both(Hinge(), scipy.sparse.csr_matrix(X), y)
    with pytest.raises(ValueError, match="one pair at a step"):
        both(Hinge(), X, y, pairing=FifoBuffer(3))
    with pytest.raises(ValueError, match=r"20,000 features.*at most 8,192"):
        both(Hinge(), np.zeros((4, 20_000)), np.array([1.0, -1.0, 1.0, -1.0]))


def test_a_loss_of_ones_own_that_derives_from_ours_is_refused():
    class Steeper(Hinge):
        pass

    with pytest.raises(ValueError, match=r"Steeper.*not built in"):
        both(Steeper(), *sample())
