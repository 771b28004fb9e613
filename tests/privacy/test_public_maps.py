# SPDX-License-Identifier: BSD-3-Clause
"""A map that learns from examples would be a release without noise: each way of it is refused."""

import numpy as np
import pytest

from pairlearn.features import Hats, RandomFourier, Union
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.public_maps import check_public_map, map_publicly

CHOSEN = RandomFourier(64, "gaussian", gamma=0.1)
EXAMPLES = np.random.default_rng(0).normal(size=(30, 2))


@pytest.mark.parametrize(
    "features",
    ["hats", "fourier", CHOSEN, Hats.between([0.0, 0.0], [1.0, 2.0], n_knots=4),
     Union(CHOSEN, Hats.between([0.0, 0.0], [1.0, 2.0], n_knots=4))],
)  # fmt: skip
def test_maps_of_public_numbers_are_accepted(features):
    check_public_map(features)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (RandomFourier(64, "gaussian"), "takes its scales"),
        (RandomFourier(gamma=0.1, kind="gaussian"), "takes its scales"),
        (RandomFourier(64, "mixed", gamma=0.1), "takes its scales"),
        (CHOSEN.fit(EXAMPLES, rng=0), "takes its scales"),
        (Hats(), "quantiles of examples"),
        (Union(CHOSEN, Hats()), "quantiles of examples"),
        (Union(RandomFourier(), CHOSEN), "takes its scales"),
    ],
)
def test_maps_that_learn_are_refused(features, message):
    with pytest.raises(ValueError, match=message):
        check_public_map(features)


@pytest.mark.parametrize("gamma", [0.05, 0.4])
def test_public_frequencies_approximate_the_gaussian_kernel_in_units_of_the_bounds(gamma):
    # 20,000 frequencies: an inner product is within .03 of the kernel, four standard errors.
    setting = PublicSetting.make(
        100, lower=np.array([-2.0, 0.0]), upper=np.array([4.0, 1.0]), epsilon=1.0, delta=1e-3
    )
    made = map_publicly(RandomFourier(40_000, "gaussian", gamma=gamma), setting)
    rng = np.random.default_rng(1)
    X = rng.uniform(setting.lower, setting.upper, (8, 2))
    mapped = made.transform(X)
    apart = (X[:, None, :] - X[None, :, :]) / setting.unit
    kernel = np.exp(-gamma * (apart**2).sum(axis=2))
    found = mapped @ mapped.T
    assert found / found[0, 0] == pytest.approx(kernel, abs=0.03)


@pytest.mark.parametrize("name", ["linear", "hat", "auto"])
def test_a_name_is_that_of_a_map(name):
    if name == "linear":
        check_public_map(name)
        return
    with pytest.raises(ValueError, match="must be"):
        check_public_map(name)


def test_knots_of_bounds_whose_width_is_beyond_floats():
    setting = PublicSetting.make(9, lower=[-1e308], upper=[1e308], epsilon=1.0, delta=1e-3)
    assert map_publicly("hats", setting).knots == ((-1e308, -5e307, 0.0, 5e307, 1e308),)
