# SPDX-License-Identifier: BSD-3-Clause
"""check_mechanism: every mechanism of the package passes, and slips are found."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from pairlearn.privacy import check_mechanism
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.by_name import (
    MECHANISMS,
    METRIC_MECHANISMS,
    REGRESSION_MECHANISMS,
)
from pairlearn.privacy.mechanisms.gradient import AllPairsGradient
from pairlearn.privacy.release import release_vector

ALL = {**MECHANISMS, **METRIC_MECHANISMS, **REGRESSION_MECHANISMS}


@pytest.mark.parametrize("name", ALL)
def test_mechanisms_of_the_package(name):
    mechanism = ALL[name]()
    report = check_mechanism(mechanism, n_random=6)
    assert report.relations == mechanism.relations
    assert report.n_pairs == 10 * len(mechanism.relations)
    assert 0.1 < report.largest_share <= 1.0 + 1e-9


def test_more_steps_and_another_setting():
    setting = PublicSetting.make(
        12, lower=[0.0, 0.0, 5.0], upper=[1.0, 3.0, 9.0], levels=[0, 4, 0], epsilon=3.0, delta=1e-2
    )
    assert check_mechanism(AllPairsGradient(n_steps=3), setting=setting).n_releases == 3


@dataclass(frozen=True)
class Mine(Mechanism):
    """The noisy difference of class sums, within the corners of the bounds, with places to slip."""

    factor: float = 2.0
    name = "class_sums"

    def fit(self, Z, signs, *, setting, noise):
        self.check(setting, noise)
        corner = np.linalg.norm(setting.to_standard(setting.upper[None, :]))
        moved = self.factor if setting.neighbours == "replace" else 0.5 * self.factor
        noisy, release = release_vector(
            signs @ Z,
            name="difference of class sums",
            sensitivity=moved * corner * (1.0 + 1e-9),
            mu=setting.mu * (1.0 - 1e-12),
            noise=noise,
        )
        return PrivateFit(
            noisy, 0.0, (release,), release.mu, "one Gaussian release", secure=noise.secure
        )


def test_a_sound_one():
    report = check_mechanism(Mine())
    assert (report.n_releases, report.relations) == (1, ("replace", "add_remove"))
    assert report.largest_share == pytest.approx(1.0)


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
    scale = release.noise_scale
    if noise.secure:
        return fit
    return replace(fit, direction=noise.protect(signs @ Z, scale), releases=(release, release))


def one_for_each_class(fit, Z, signs, noise):
    """As many releases as there are classes."""
    for sign in np.unique(signs)[1:]:
        fit = twice(fit, Z, sign * signs, noise)
    return fit


def raised(fit, Z, signs, noise):
    Z += 1.0
    return fit


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (Mine(factor=1.9), "states the sensitivity 8.06.* but two neighbours are 8.48.* apart"),
        (changed(lambda f, Z, *_: replace(f, direction=Z.mean(axis=0))), "past the noise"),
        (changed(lambda f, Z, *_: replace(f, threshold=float(Z[:, 0].max()))), "past the noise"),
        (changed(lambda f, Z, s, _: replace(f, details={"share": s.mean()})), "past the noise"),
        (changed(lambda f, *_: replace(f, releases=())), r"lists releases of \[\] numbers"),
        (changed(lambda f, *_: replace(f, mu=0.5 * f.mu)), "compose all releases"),
        (changed(lambda f, *_: replace(f, mu=2.0 * f.mu)), "with releases of up to"),
        (changed(lambda f, *_: replace(f, mu=1.2 * f.mu)), "with releases of up to"),
        (
            changed(lambda f, *_: replace(f, releases=(replace(f.releases[0], name=""),))),
            "and each release a name",
        ),
        (changed(lambda f, *_: replace(f, threshold=np.nan)), "gives the threshold nan"),
        (changed(lambda f, *_: replace(f, direction=f.direction[:1])), "release 2 finite numbers"),
        (changed(lambda f, *_: replace(f, accounting="")), "its accounting and each release"),
        (changed(lambda f, *_: replace(f, secure=False)), "secure=noise.secure"),
        (
            changed(lambda f, *_: replace(f, direction=f.direction + np.random.random())),  # noqa: NPY002
            "another result with the same seed",
        ),
        (
            changed(lambda f, *_: replace(f, releases=(replace(f.releases[0], noise_scale=1e6),))),
            "states noise of 1e\\+06",
        ),
        (changed(twice), "its releases together are"),
        (changed(one_for_each_class), "lengths depend on the setting only|together are"),
        (changed(raised), "changes the examples"),
    ],
)
def test_slips_are_found(mechanism, message):
    with pytest.raises(ValueError, match=message):
        check_mechanism(mechanism)


def test_a_cost_that_says_nothing_is_found():
    class Free(Mine):
        def cost(self, setting):
            return {}

    class Cheap(Mine):
        def cost(self, setting):
            return {"mu": 0.1 * setting.mu}

    with pytest.raises(ValueError, match="let cost return"):
        check_mechanism(Free())
    with pytest.raises(ValueError, match="less than mu"):
        check_mechanism(Cheap())


def test_one_that_releases_nothing():
    class Constant(Mechanism):
        name = "constant"

        def fit(self, Z, signs, *, setting, noise):
            return PrivateFit(
                np.ones(setting.n_features), 0.0, (), 0.0, "nothing is released",
                secure=noise.secure,
            )  # fmt: skip

    report = check_mechanism(Constant())
    assert (report.n_releases, report.largest_share) == (0, 0.0)


def test_what_is_not_a_mechanism():
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_mechanism(Mine)
    with pytest.raises(ValueError, match="n_random must be at least 0"):
        check_mechanism(Mine(), n_random=-1)
