# SPDX-License-Identifier: BSD-3-Clause
"""check_mechanism: every mechanism of the package passes, and slips are found."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from pairlearn.losses import DistanceLogistic, Welsch
from pairlearn.privacy import NoisySGD, check_mechanism
from pairlearn.privacy.mechanisms.all_pairs import AllPairsGradient
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.by_name import MECHANISMS
from pairlearn.privacy.release import release_vector

ALL = {name: MECHANISMS[name]() for name in MECHANISMS} | {
    "metric": NoisySGD(loss=DistanceLogistic()),
    "regression": NoisySGD(loss=Welsch(0.1)),
}


@pytest.mark.parametrize("name", ALL)
def test_mechanisms_of_the_package(name):
    assert 0.1 < check_mechanism(ALL[name]) <= 1.0 + 1e-9


def test_more_steps_and_another_setting():
    setting = PublicSetting.make(
        12, lower=[0.0, 0.0, 5.0], upper=[1.0, 3.0, 9.0], levels=[0, 4, 0], epsilon=3.0, delta=1e-2
    )
    assert check_mechanism(AllPairsGradient(n_steps=3), setting=setting) <= 1.0


@dataclass(frozen=True)
class Mine(Mechanism):
    """The noisy difference of class sums, within the corners of the bounds, with places to slip."""

    factor: float = 2.0
    name = "class_sums"

    def fit(self, Z, signs, *, setting, noise):
        corner = np.linalg.norm(setting.to_standard(setting.upper[None, :]))
        moved = self.factor if setting.neighbours == "replace" else 0.5 * self.factor
        noisy, release = release_vector(
            signs @ Z, name="difference of class sums", sensitivity=moved * corner * (1.0 + 1e-9),
            mu=setting.mu * (1.0 - 1e-12), noise=noise,
        )  # fmt: skip
        return PrivateFit(noisy, (release,), 0.0)


def test_a_sound_one():
    assert check_mechanism(Mine()) == pytest.approx(1.0, rel=1e-5)


class Changed(Mine):
    """`Mine`, with its result changed."""

    def fit(self, Z, signs, *, setting, noise):
        fit = super().fit(Z, signs, setting=setting, noise=noise)
        return self.change(fit, Z, signs, noise)


def changed(change):
    return type("Slip", (Changed,), {"change": staticmethod(change)})()


def twice(fit, Z, signs, noise):
    """A second release of the same, with the whole budget again."""
    (release,) = fit.releases
    _, again = release_vector(
        signs @ Z, name="again", sensitivity=release.sensitivity, mu=release.mu, noise=noise
    )
    return replace(fit, releases=(release, again))


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (Mine(factor=1.9), "times its sensitivity away"),
        (changed(lambda f, Z, *_: replace(f, direction=Z.mean(axis=0))), "differ on the neighbour"),
        (
            changed(lambda f, Z, *_: replace(f, threshold=float(Z[:, 0].max()))),
            "differ on the neighbour",
        ),
        (changed(lambda f, *_: replace(f, releases=())), "are listed, but others were made"),
        (changed(twice), "over the budget"),
    ],
)
def test_slips_are_found(mechanism, message):
    with pytest.raises(ValueError, match=message):
        check_mechanism(mechanism)


def test_what_is_not_a_mechanism():
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_mechanism(Mine)
