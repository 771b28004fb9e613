# SPDX-License-Identifier: BSD-3-Clause
"""What is learned from released moments is what lemma 5 says, written down a second time here.

The numbers of the schedule and of the beliefs were chosen by simulations; they stand here once
more, so that none of them changes by accident.
"""

import math

import numpy as np
import pytest

import pairlearn.privacy.mechanisms.centred as centred_module
from pairlearn.privacy import CentredStatistics, PublicSetting
from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.centred import first_radius, solve_moments
from pairlearn.privacy.mechanisms.sufficient_statistics import Moments, Weights

D = 3
N = 400


def setting_of(neighbours="replace", centre=None):
    return PublicSetting.make(
        N, lower=[-2.0] * D, upper=[2.0] * D, epsilon=1.0, delta=1e-4, neighbours=neighbours,
        centre=centre,
    )  # fmt: skip


def drawn_moments(rng, *, deviation, label, n_rounds=3, length=0.8):
    """Return made-up releases: those of normal records, with noise of the given deviation."""
    found = []
    for k in range(n_rounds):
        last = k == n_rounds - 1
        weights = Weights.free(rng.uniform(0.5, 2.0), second_moments=last)
        centre, radius = rng.normal(size=D), rng.uniform(1.0, 2.0)
        mean = 0.3 * rng.normal(size=D)
        apart = 0.2 * rng.normal(size=D)
        second = None
        if last:
            root = 0.3 * rng.normal(size=(D, D))
            second = np.outer(mean, mean) + root @ root.T + 0.05 * np.eye(D)
        found.append(
            Moments(
                label * mean + apart, mean, label + 0.01 * rng.normal(), length, second, deviation,
                weights, centre, radius, Release("moments", 8, 1.0, 1.0),
            )
        )  # fmt: skip
    return found


def least_squares(values, precisions):
    """Return the value that fits all best, and the variance of it, by the normal equations."""
    root = np.sqrt(np.asarray(precisions, dtype=float))
    wanted = root[:, None] * np.asarray(values, dtype=float).reshape(len(root), -1)
    fitted, *_ = np.linalg.lstsq(root[:, None], wanted, rcond=None)
    return fitted[0], 1.0 / float((root**2).sum())


def james_stein(moment):
    """Return the share of the mean that is kept."""
    noise = D * moment.deviation**2 / moment.weights.mean**2
    return max(0.0, 1.0 - noise / float(np.sum(moment.mean**2)))


def beliefs_of(moments, start):
    # the label mean is 0 within .3 before anything is released
    labels = [*(m.label for m in moments), 0.0]
    sure = [*(1.0 / (m.deviation / m.weights.label) ** 2 for m in moments), 1.0 / 0.3**2]
    label = float(np.clip(least_squares(labels, sure)[0][0], -0.98, 0.98))
    # each round says where the centre is, up to its noise and 5 % of its radius by clipping
    noises = [(m.radius * m.deviation / m.weights.mean) ** 2 for m in moments]
    errors = [noise + (0.05 * m.radius) ** 2 / D for noise, m in zip(noises, moments, strict=True)]
    seen = [m.centre + m.radius * m.mean for m in moments]
    pooled, variance = least_squares(seen, [1.0 / error for error in errors])
    # Bayes' rule, with the variance of the centre about the start as it shows
    true = max(1e-6, float(np.mean((pooled - start) ** 2)) - variance)
    centre = (true * pooled + variance * start) / (true + variance)
    left = true * variance / (true + variance)
    # the squared length about the new centre, without noise
    newest = moments[-1]
    shown = (newest.radius * np.clip(newest.length, 0.2, 1.0)) ** 2
    shown -= float(np.sum((centre - newest.centre) ** 2)) + D * left
    length = max(math.sqrt(max(shown, 0.0)), 0.5 * math.sqrt(D))
    before, error = 0.25**2 * D, (newest.radius * newest.deviation / newest.weights.length) ** 2
    length = (before * length + error * 0.75 * math.sqrt(D)) / (before + error)
    return label, centre, math.hypot(length, math.sqrt(D * left))


def solution_of(moments, setting, *, belief):
    label, centre, _ = beliefs_of(moments, setting.standard_centre)
    estimates, variances = [], []
    for k, m in enumerate(moments):
        kept = james_stein(m) if k else 1.0
        estimates.append(m.radius * (m.label_mean - label * kept * m.mean))
        noise = (m.radius * m.deviation) ** 2 * (1.0 + kept * (label / m.weights.mean) ** 2)
        clipping = (0.05 * m.radius) ** 2 / D if k < len(moments) - 1 else 0.0
        variances.append(noise + clipping)
    covariance, variance = least_squares(estimates, [1.0 / v for v in variances])
    last = moments[-1]
    kept = james_stein(last) if len(moments) > 1 else 1.0
    spread = last.second - kept**2 * np.outer(last.mean, last.mean)
    trace = max(np.trace(spread), 1e-3)
    if belief:
        h = (1.0 - label**2) / 2.0
        before = 0.25 * h * 2.0 * label * setting.from_public_centre(centre) / (1.0 + label**2)
        of_before = 2.0 * h**2 * 0.5**2 / (1.0 + label**2)
        of_sample = last.radius**2 * trace / D * (1.0 - label**2) / setting.n_examples
        w = of_before / (of_before + variance + of_sample)
        covariance, variance = w * covariance + (1.0 - w) * before, w * variance
    # the released covariance, its unequal part shrunk by what its noise explains
    deviation = last.deviation / math.sqrt(last.weights.second)
    round_part = trace / D * np.eye(D)
    unequal = spread - round_part
    expected = deviation**2 * D * (D + 1) / 2.0
    shrunk = round_part + max(0.0, 1.0 - expected / np.sum(unequal**2)) * unequal
    values, vectors = np.linalg.eigh(shrunk)
    shrunk = vectors @ np.diag(np.clip(values, 0.0, None)) @ vectors.T
    noise = D * variance / last.radius**2
    signal = max(np.sum(covariance**2) / last.radius**2 - noise, 0.2 * noise)
    ridge = trace * (noise / D) / signal + math.sqrt(D) * deviation
    solver = np.linalg.inv(shrunk + ridge * np.eye(D))
    direction = solver @ covariance / last.radius
    return direction


CASES = [(1e-3, 0.1, 0.8), (1e-3, -0.7, 1.4), (0.03, 1.3, 0.1), (0.3, -0.7, 0.8), (0.3, 0.1, 1.4)]


@pytest.mark.parametrize("belief", [False, True])
@pytest.mark.parametrize(("deviation", "label", "length"), CASES)
def test_the_solution_is_that_of_lemma_5(deviation, label, length, belief):
    setting = setting_of()
    for seed in range(3):
        rng = np.random.default_rng([seed, round(1e4 * deviation), round(10 * abs(label))])
        moments = drawn_moments(rng, deviation=deviation, label=label, length=length)
        # threshold and log odds have tests of their own, test_log_odds.py
        direction, *_ = solve_moments(moments, setting, N, rare_class_belief=belief)
        np.testing.assert_allclose(
            direction, solution_of(moments, setting, belief=belief), rtol=1e-8
        )


#: (share of mu^2, weight of the mean) of each round.
SCHEDULES = {
    1: [(1.0, 1.2)],
    2: [(0.15, 2.0), (0.85, 1.2)],
    3: [(0.06, 2.0), (0.16, 1.5), (0.78, 1.2)],
    5: [(0.03, 2.0), (0.04, 2.0), (0.05, 2.0), (0.10, 1.2), (0.78, 1.2)],
}


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("n_rounds", SCHEDULES)
@pytest.mark.parametrize(("label", "length"), [(0.02, 0.9), (0.6, 0.1), (-0.9, 1.3)])
def test_the_rounds_ask_for_what_the_schedule_says(
    n_rounds, neighbours, label, length, monkeypatch
):
    setting, asked, answers = setting_of(neighbours), [], []
    rng = np.random.default_rng(n_rounds)

    def release(Z, signs, **options):
        asked.append(options)
        made = drawn_moments(rng, deviation=0.02, label=label, n_rounds=1, length=length)[0]
        answer = Moments(
            made.label_mean, made.mean, made.label, made.length, made.second, made.deviation,
            options["weights"], options["centre"], options["radius"], made.release,
        )  # fmt: skip
        answers.append(answer)
        return answer

    monkeypatch.setattr(centred_module, "release_moments", release)
    CentredStatistics(n_rounds=n_rounds).fit(None, None, setting=setting, noise=None)
    shares, weights = zip(*SCHEDULES[n_rounds], strict=True)
    assert sum(shares) == pytest.approx(1.0, abs=1e-12)
    mus = np.array([one["mu"] for one in asked])
    np.testing.assert_allclose(mus, setting.mu * np.sqrt(shares), rtol=1e-11)
    # rounding never lifts the sum above the budget
    assert math.hypot(*mus) < setting.mu
    root = math.sqrt(D)
    for k, one in enumerate(asked):
        last = k == n_rounds - 1
        found, centre, reach = 0.0, setting.standard_centre, 1.3 * root
        if k:
            found, centre, reach = beliefs_of(answers[:k], setting.standard_centre)
        factor = 0.85 if last else 1.1 if k else 1.0
        assert one["radius"] == pytest.approx(np.clip(factor * reach, 0.1 * root, 1.5 * root))
        np.testing.assert_allclose(one["centre"], centre, rtol=1e-9)
        b = max(0.3, weights[k] * abs(found)) if last else weights[k]
        assert one["weights"].mean == pytest.approx(b)
        if neighbours == "replace":
            # as large as costs nothing
            expected = Weights.free(b, second_moments=last)
            assert one["weights"].sensitivity(neighbours) == pytest.approx(2 * math.hypot(1, b))
        else:
            expected = Weights(b, 0.5 * min(1.0, b), 0.3, 0.25 * (1.0 + b * b) if last else 0.0)
        assert vars(one["weights"]) == pytest.approx(vars(expected))


def test_a_public_centre_makes_the_first_ball_smaller():
    assert first_radius(setting_of()) == pytest.approx(1.3 * math.sqrt(D))
    assert first_radius(setting_of(centre=[0.5] * D)) == pytest.approx(0.8 * math.sqrt(D))
