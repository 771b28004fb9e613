# SPDX-License-Identifier: BSD-3-Clause
"""check_loss: every loss of the package passes, and slips are found."""

import math

import numpy as np
import pytest

from pairlearn import AUCClassifier, PairLoss
from pairlearn.losses import (
    LOSSES,
    METRIC_LOSSES,
    DistanceHinge,
    Epanechnikov,
    GapWeighted,
    Hinge,
    LogLink,
    Welsch,
    scalar,
)
from pairlearn.testing import check_loss

# ruff: noqa: N805

EVERY = [kind(one_sided=side) for kind in LOSSES.values() for side in (False, True)]
EVERY += [Welsch(bandwidth=0.7), Epanechnikov(bandwidth=0.7), GapWeighted(base=Hinge())]


@pytest.mark.parametrize("loss", EVERY, ids=repr)
def test_losses_of_margins_and_errors(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", [METRIC_LOSSES.make(name) for name in METRIC_LOSSES], ids=repr)
def test_losses_of_distances(loss):
    check_loss(loss)


class Slope(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        return score * score

    @scalar
    def derivative(score, y, y_partner, _):
        return score


class Infinite(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        return math.inf if score > 3.0 else 0.0

    @scalar
    def derivative(score, y, y_partner, _):
        return 0.0


class Undecorated(PairLoss):
    def value(score, y, y_partner, _):
        return 0.0


class WrongBound(Hinge):
    def slope_bound(self, margin_bound):
        return 0.5


class WrongArray(Hinge):
    def values(self, margins):
        return np.abs(margins)


class ZeroBeforeTheKink(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        return max(1.0 - (score if y > y_partner else -score), 0.0)

    @scalar
    def derivative(score, y, y_partner, _):
        margin = score if y > y_partner else -score
        return (-1.0 if margin <= 0.9 else 0.0) * (1.0 if y > y_partner else -1.0)


class KinkAtAnOddPlace(PairLoss):
    """The slope ends .004 too early, between two points of the grid."""

    @scalar
    def value(score, y, y_partner, _):
        return max(0.70711 - (score if y > y_partner else -score), 0.0)

    @scalar
    def derivative(score, y, y_partner, _):
        margin = score if y > y_partner else -score
        return (-1.0 if margin < 0.70311 else 0.0) * (1.0 if y > y_partner else -1.0)


class WrongWindow(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        return 0.5 * score * score

    @scalar
    def derivative(score, y, y_partner, _):
        return score + (1.0 if 2.01 < score < 2.06 else 0.0)


class WrongFarAway(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        return abs(score)

    @scalar
    def derivative(score, y, y_partner, _):
        return max(-1.0, min(1.0, score * 1e9)) if abs(score) < 60.0 else 0.0


class WrongSign(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        return max(score - 0.3, 0.3 - score)

    @scalar
    def derivative(score, y, y_partner, _):
        return 1.0


class Jump(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        return 1.0 if score > 0.3 else 0.0

    @scalar
    def derivative(score, y, y_partner, _):
        return 0.0


class NearTheKinkOfADistance(DistanceHinge):
    @scalar
    def derivative(score, y, y_partner, bias):
        tau = 1.0 if y == y_partner else -1.0
        return tau if 1.0 + tau * (score - bias) > 0.1 else 0.0


class Bump(PairLoss):
    """A loss that is not convex, rises and has the curvature 1 at 0."""

    @scalar
    def value(score, y, y_partner, _):
        return -math.cos(score)

    @scalar
    def derivative(score, y, y_partner, _):
        return math.sin(score)


class Bent(Bump):
    convex = False


class Falling(Bent):
    never_increases = True


class Straight(Bent):
    def curvature_bound(self, margin_bound):
        return 0.9


class Curved(Bent):
    def curvature_floor(self, margin_bound):
        return -0.9


class WrongSums(Hinge):
    def sums(self, p, q, b):
        values, slopes = super().sums(p, q, b)
        return values, 2.0 * slopes


class NoSquare(Hinge):
    by_moments = True


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (WrongSums(), r"WrongSums.sums gives .* for the sum of b_j l'\(p_i - q_j\)"),
        (NoSquare(), "NoSquare says that it is .parameter - margin.*by_moments"),
        (Bump(), "Bump.convex does not hold"),
        (Falling(), "never_increases or falls does not hold"),
        (Straight(), "curvature_bound does not hold"),
        (Curved(), "curvature_floor does not hold"),
    ],
)
def test_what_a_loss_says_of_itself_is_tried(loss, message):
    check_loss(Bent())
    with pytest.raises(ValueError, match=message):
        check_loss(loss)


def test_a_weighted_loss_is_convex_if_its_base_is():
    assert GapWeighted(base=Hinge()).convex
    assert not GapWeighted(base=LogLink()).convex


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (ZeroBeforeTheKink(), "correct one of the two functions"),
        (KinkAtAnOddPlace(), "is 0 at score 0.70"),
        (WrongWindow(), r"at score 2\.0"),
        (WrongFarAway(), "at score -100"),
        (WrongSign(), r"at score .*-1 \(left\) and -1 \(right\)"),
        (Jump(), "must be continuous"),
        (NearTheKinkOfADistance(), "correct one of the two functions"),
        (Slope(), "correct one of the two functions"),
        (Infinite(), "is not finite at score"),
        (Undecorated(), "decorated with @scalar"),
        (WrongBound(), "slope_bound"),
        (WrongArray(), "array form gives"),
    ],
)
def test_slips_are_found(loss, message):
    with pytest.raises(ValueError, match=message):
        check_loss(loss)


def test_other_findings():
    check_loss(DistanceHinge(), labels=[(1.0, 2.0)])
    with pytest.raises(ValueError, match="must not be negative, got the score -1"):
        check_loss(DistanceHinge(), scores=[-1.0, 2.0])
    with pytest.raises(ValueError, match="list of finite numbers"):
        check_loss(Hinge(), scores=[])
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_loss(Hinge)
    with pytest.raises(ValueError, match="counts none"):
        check_loss(Hinge(), labels=[(1.0, 1.0)])


def test_the_log_link_loss_trains():
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import scale

    X, y = load_breast_cancer(return_X_y=True)
    model = AUCClassifier(loss="loglink", random_state=0).fit(scale(X), y)
    assert model.score(scale(X), y) > 0.99
