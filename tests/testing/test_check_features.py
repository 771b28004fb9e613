# SPDX-License-Identifier: BSD-3-Clause
"""`check_features`: what passes, and what each failure says."""

from dataclasses import dataclass

import numpy as np
import pytest

from pairlearn.features import Bounds, FeatureMap, Hats, Nystroem, RandomFourier, Union
from pairlearn.testing import check_features


@dataclass(frozen=True)
class Squares(FeatureMap):
    def mapped(self, X):
        return np.hstack([X, X * X])


@dataclass(frozen=True)
class Distances(FeatureMap):
    def learn(self, X, rng):
        return {"mean": X.mean(axis=0)}

    def mapped(self, X):
        return np.abs(X - self.learned["mean"])


@dataclass(frozen=True)
class LooksAround(FeatureMap):
    def mapped(self, X):
        return X - X.mean(axis=0)


@dataclass(frozen=True)
class Overwrites(FeatureMap):
    def mapped(self, X):
        return X

    def fill(self, X, out):
        X *= 2.0
        out[...] = X


@dataclass(frozen=True)
class Boasts(FeatureMap):
    def mapped(self, X):
        return X

    def bounds(self):
        return Bounds(-1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Infinite(FeatureMap):
    def mapped(self, X):
        return np.where(X > 0, np.inf, X)


@pytest.mark.parametrize(
    "good", [Squares(), Distances(), Hats(), RandomFourier(32), Nystroem(5), Union(Hats(), Hats())]
)
def test_sound_maps_pass(good):
    check_features(good)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (LooksAround(), "by itself"),
        (Overwrites(), "changes X"),
        (Boasts(), "promises the norm 1"),
        (Infinite(), "NaN or infinity"),
        (FeatureMap(), "must define mapped"),
    ],
)
def test_unsound_maps_are_refused(bad, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        check_features(bad)


def test_a_class_is_no_map():
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_features(Squares)
