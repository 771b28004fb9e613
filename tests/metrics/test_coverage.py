# SPDX-License-Identifier: BSD-3-Clause
"""Intervals and bands cover a known truth as often as they say: 0.95, within 0.02.

The grid of AUCs, sizes and kinds of scores is that of ``python -m benchmarks.coverage``, which
prints its table. Of 4,000 trials the share that covers has a standard deviation of 0.0035. The
bounds allow for a coverage that itself is 0.95 +- 0.015 and are then at least 1.4 of them away: the
seeds are fixed, and a correct interval of exact coverage fails with probability below 1e-7.
"""

import numpy as np
import pytest
from benchmarks.coverage import LEAST, MOST, SPREAD, Cell, cells, coverage, forms, trials_of
from scipy.stats import norm

from pairlearn.metrics import (
    AveragePrecision,
    EnrichmentFactor,
    ExpectedCost,
    HandTill,
    PartialAUC,
    PrecisionAt,
    RecallAt,
    calibration_curve,
    precision_recall_band,
    roc_band,
)

SHIFT = 1.5

# Of 500 trials a share of .95 has a standard deviation of .01: the bound is 3 of them away. Logit
# intervals of DeLong's variance cover .889, .833, .844 and .89 in the first three and the last.
QUICK = [
    Cell("AUC", "equal", 0.99, (30, 300)),
    Cell("AUC", "ties", 0.95, (10, 200)),
    Cell("two-way", "equal", 0.99, (30, 300)),
    Cell("two-way", "wide", 0.99, (100, 2000)),
    Cell("groups", "equal", 0.95, (10, 50, 5)),
]


@pytest.mark.parametrize("cell", QUICK, ids=str)
def test_intervals_of_good_scores(cell):
    share, above, below = coverage(cell, 500)
    assert share >= 0.92
    assert max(above, below) <= 0.05


#: What the grid does not reach, and why: docstring and guide say so.
KNOWN = {
    # With ten negatives none may stand in the part, and the curve beyond it is steep; a warning
    # says so.
    ("partial AUC", "narrow"): 0.86,
    # Rare bad positives, by which the second score is behind, are not among ten.
    ("difference", "wide"): 0.88,
}
#: Five minutes of one core for the whole grid.
N_TRIALS = 300


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(SPREAD))
@pytest.mark.parametrize("form", sorted(forms()))
def test_the_whole_grid(form, kind):
    # 3 standard deviations below what is promised or known
    least, found = KNOWN.get((form, kind), LEAST[kind]), []
    for cell in cells(form):
        if cell.kind == kind:
            slack = 3.0 * np.sqrt(least * (1.0 - least) / trials_of(cell, N_TRIALS))
            found.append(coverage(cell, N_TRIALS)[0])
            assert found[-1] >= least - slack, cell
    if form == "AUC" and kind in ("equal", "ties"):
        assert np.mean(found) <= MOST


def true_value(metric, prevalence):
    """The metric of a very fine sample: quantiles of both classes, weighted."""
    grid = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    y = np.repeat([0, 1], len(grid))
    weight = np.where(y == 1, prevalence, 1.0 - prevalence)
    return metric(y, np.concatenate((grid, grid + SHIFT)), sample_weight=weight)


CASES = [
    (PartialAUC(0.1), PartialAUC(0.1), 0.1, 1000),
    (PartialAUC(0.1), PartialAUC(0.1), 0.3, 200),
    (PartialAUC(0.3, 0.5), PartialAUC(0.3, 0.5), 0.1, 1000),
    (AveragePrecision(), AveragePrecision(), 0.1, 1000),
    (AveragePrecision(), AveragePrecision(), 0.3, 200),
    (PrecisionAt(100), PrecisionAt(40_000), 0.1, 1000),
    (RecallAt(100), RecallAt(40_000), 0.1, 1000),
    (EnrichmentFactor(0.1), EnrichmentFactor(0.1), 0.3, 200),
    (EnrichmentFactor(0.05), EnrichmentFactor(0.05), 0.1, 500),
    (EnrichmentFactor(0.01), EnrichmentFactor(0.01), 0.05, 2000),
    (ExpectedCost(1.0, 4.0, 1.0), ExpectedCost(1.0, 4.0, 1.0), 0.1, 1000),
]


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "fine", "prevalence", "n"), CASES, ids=repr)
def test_intervals(metric, fine, prevalence, n):
    truth, rng, covered = true_value(fine, prevalence), np.random.default_rng(n), 0
    for _ in range(4000):
        y = (rng.random(n) < prevalence).astype(int)
        found = metric.interval(y, rng.normal(size=n) + SHIFT * y)
        covered += found.low <= truth <= found.high
    # the lower limit of a part is also that of a count, which is a little wide
    most = 0.98 if isinstance(metric, PartialAUC) else 0.97
    assert 0.93 <= covered / 4000 <= most


@pytest.mark.slow
@pytest.mark.parametrize("metric", [PartialAUC(), PartialAUC(0.2), AveragePrecision()], ids=repr)
def test_intervals_of_groups(metric):
    truth, rng, covered = true_value(metric, 0.3), np.random.default_rng(1), 0
    groups = np.repeat(np.arange(60), 5)
    for _ in range(4000):
        y = (rng.random(60) < 0.3).astype(int)[groups]
        common, own = rng.normal(size=60)[groups], rng.normal(size=300)
        scores = np.sqrt(0.5) * (common + own) + SHIFT * y
        found = metric.interval(y, scores, groups=groups)
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / 4000 <= 0.97


@pytest.mark.slow
def test_paired_tests_reject_as_rarely_as_they_say():
    rng = np.random.default_rng(2)
    rejected = np.zeros(3)
    metrics = (PartialAUC(0.1), AveragePrecision(), PrecisionAt(40))
    for _ in range(4000):
        y = (rng.random(400) < 0.2).astype(int)
        common = rng.normal(size=400) + 1.5 * y
        a, b = common + 0.7 * rng.normal(size=(2, 400))
        rejected += [metric.compare(y, a, b).p_value < 0.05 for metric in metrics]
    assert (np.abs(rejected / 4000 - 0.05) < 0.02).all()


@pytest.mark.slow
def test_hand_till():
    means = np.array([[0.0, 0.0], [1.2, 0.0], [0.0, 1.2]])
    pairs = ((0, 1), (0, 2), (1, 2))
    truth = np.mean([norm.cdf(np.linalg.norm(means[a] - means[b]) / np.sqrt(2)) for a, b in pairs])
    rng, covered = np.random.default_rng(3), 0
    for _ in range(4000):
        y = rng.choice(3, size=300, p=[0.5, 0.3, 0.2])
        X = rng.normal(size=(300, 2)) + means[y]
        scores = np.column_stack([X @ (means[b] - means[a]) for a, b in pairs])
        found = HandTill(pairs=True).interval(y, scores)
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / 4000 <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("n", "prevalence"), [(300, 0.3), (200, 0.15)])
def test_bands(n, prevalence):
    # Of 1,000 trials the standard deviation is 0.007: 0.02 and three of those.
    rng, covered = np.random.default_rng(4), np.zeros(2)
    y = (np.arange(n) < prevalence * n).astype(int)
    for _ in range(1000):
        scores = rng.normal(size=n) + SHIFT * y
        roc = roc_band(y, scores, n_resamples=300, random_state=rng)
        truth = norm.sf(norm.isf(roc.fpr) - SHIFT)
        covered[0] += ((roc.low <= truth + 1e-12) & (truth <= roc.high + 1e-12)).all()
        band = precision_recall_band(y, scores, n_resamples=300, random_state=rng)
        # Where the highest score is a negative one the curve begins at recall 0, whose precision is
        # that of nothing.
        some = band.recall > 0.0
        caught = prevalence * band.recall[some]
        fpr = norm.sf(norm.isf(band.recall[some]) + SHIFT)
        truth = caught / (caught + (1.0 - prevalence) * fpr)
        low, high = band.low[some], band.high[some]
        covered[1] += ((low <= truth + 1e-12) & (truth <= high + 1e-12)).all()
    assert (covered / 1000 >= 0.91).all()


@pytest.mark.slow
def test_calibration_limits():
    # Bonferroni is a bound: coverage may be higher.
    rng, covered = np.random.default_rng(5), 0
    for _ in range(2000):
        p = 1.0 / (1.0 + np.exp(-1.5 * rng.normal(size=500)))
        curve = calibration_curve(rng.random(500) < p, p)
        covered += ((curve.low <= curve.predicted) & (curve.predicted <= curve.high)).all()
    assert covered / 2000 >= 0.93


def drawn(rng, n, prevalence, shift, kind):
    """Return labels, scores, weights and groups of one simulated sample."""
    if kind == "groups":
        groups = np.repeat(np.arange(n // 4), 4)
        y = (rng.random(n // 4) < prevalence)[groups].astype(int)
        common, own = rng.normal(size=n // 4)[groups], rng.normal(size=n)
        return y, np.sqrt(0.5) * (common + own) + shift * y, None, groups
    y = (rng.random(n) < prevalence).astype(int)
    weight = rng.exponential(size=n) if kind == "weights" else None
    return y, rng.normal(size=n) + shift * y, weight, None


TOPS = [
    (10, 200, "plain"), (10, 1000, "plain"), (20, 200, "plain"), (20, 1000, "plain"),
    (50, 1000, "plain"), (200, 1000, "plain"), (50, 5000, "plain"), (20, 200, "weights"),
    (50, 1000, "weights"), (20, 200, "groups"), (50, 1000, "groups"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("k", "n", "kind"), TOPS)
def test_the_top_of_the_list(k, n, kind):
    # A share of few examples has few values, and the coverage of any interval goes up and down
    # with the truth: what is held to 0.93 and 0.975 is its mean over eight of them (Brown, Cai and
    # DasGupta 2001). Of 4,000 trials its standard deviation is 0.0035.
    rng, covered, trials = np.random.default_rng(k * n), np.zeros(2), 0
    grid = norm.ppf((np.arange(50_000) + 0.5) / 50_000)
    y = np.repeat([0, 1], len(grid))
    for prevalence in (0.1, 0.3):
        for shift in (0.7, 1.2, 1.7, 2.5):
            fine = EnrichmentFactor(k / n)(
                y,
                np.concatenate((grid, grid + shift)),
                sample_weight=np.where(y == 1, prevalence, 1.0 - prevalence),
            )
            truths = np.array([fine * prevalence, fine * k / n])
            if truths[0] > 0.99:
                continue
            for _ in range(500):
                labels, scores, weight, groups = drawn(rng, n, prevalence, shift, kind)
                if labels.sum() < 2:
                    continue
                trials += 1
                for j, metric in enumerate((PrecisionAt(k), RecallAt(k))):
                    found = metric.interval(labels, scores, sample_weight=weight, groups=groups)
                    covered[j] += found.low <= truths[j] <= found.high
    assert trials >= 3000
    assert ((covered / trials >= 0.93) & (covered / trials <= 0.975)).all()
