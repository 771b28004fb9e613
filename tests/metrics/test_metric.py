# SPDX-License-Identifier: BSD-3-Clause
"""Metrics beside scikit-learn, influences beside finite differences, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from pairlearn.metrics import (
    METRICS,
    AveragePrecision,
    BrierScore,
    CalibrationError,
    EnrichmentFactor,
    ExpectedCost,
    HandTill,
    Measured,
    Metric,
    PartialAUC,
    PrecisionAt,
    RecallAt,
    cheapest_threshold,
)
from pairlearn.metrics.hand_till import mean_pair_auc
from pairlearn.metrics.limits import share_limits

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.validation.AssumptionWarning")

TWO_CLASSES = [
    PartialAUC(),
    PartialAUC(max_fpr=0.31),
    PartialAUC(max_fpr=0.31, standardised=False),
    PartialAUC(max_fpr=0.5, min_tpr=0.37),
    AveragePrecision(),
    PrecisionAt(4),
    RecallAt(4),
    EnrichmentFactor(0.2),
    ExpectedCost(1.0, 3.0, threshold=0.4),
    BrierScore(),
    CalibrationError(3),
]
#: Those without a nuisance: their influence is a derivative of the very value.
EXACT = [m for m in TWO_CLASSES if not isinstance(m, PrecisionAt | RecallAt | EnrichmentFactor)]


@st.composite
def samples(draw):
    n = draw(st.integers(2, 40))
    y = [0, 0, 1, 1, *draw(st.lists(st.sampled_from([0, 1]), min_size=n, max_size=n))]
    scores = draw(st.lists(st.integers(0, 16), min_size=n + 4, max_size=n + 4))
    weight = draw(st.lists(st.integers(1, 8), min_size=n + 4, max_size=n + 4))
    return np.array(y), np.array(scores) / 16.0, np.array(weight) / 8.0


@given(samples(), st.sampled_from([0.05, 0.1, 1 / 3, 0.5, 0.99]), st.booleans())
@pytest.mark.thorough
def test_values_are_those_of_scikit_learn(sample, max_fpr, weighted):
    y, scores, weight = sample
    given = {"sample_weight": weight} if weighted else {}
    expected = sk.roc_auc_score(y, scores, max_fpr=max_fpr, **given)
    assert PartialAUC(max_fpr)(y, scores, **given) == pytest.approx(expected, abs=1e-12)
    expected = sk.average_precision_score(y, scores, **given)
    assert AveragePrecision()(y, scores, **given) == pytest.approx(expected, abs=1e-12)
    expected = sk.brier_score_loss(y, scores, **given)
    assert BrierScore()(y, scores, **given) == pytest.approx(expected, abs=1e-12)
    errors = 1.0 - sk.accuracy_score(y, scores > 0.5, **given)
    assert ExpectedCost(threshold=0.5)(y, scores, **given) == pytest.approx(errors, abs=1e-12)


def literal_two_way(y, scores, max_fpr, min_tpr):
    """The area by a fine grid of false positive rates."""
    fpr, tpr, _ = sk.roc_curve(y, scores, drop_intermediate=False)
    t = (np.arange(200_000) + 0.5) / 200_000 * max_fpr
    return float(np.maximum(np.interp(t, fpr, tpr) - min_tpr, 0.0).mean() * max_fpr)


def test_two_way_area_is_the_integral_over_a_fine_grid():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [37, 23])
    scores = np.round(rng.normal(size=60) + y, 1)
    for max_fpr, min_tpr in ((0.4, 0.3), (0.9, 0.05), (0.05, 0.9)):
        found = PartialAUC(max_fpr, min_tpr, standardised=False)(y, scores)
        assert found == pytest.approx(literal_two_way(y, scores, max_fpr, min_tpr), abs=1e-4)


@pytest.mark.parametrize("metric", EXACT, ids=repr)
def test_influence_is_the_derivative_by_the_weight(metric):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 50)
    scores, weight = rng.integers(0, 17, 50) / 16.0, rng.uniform(0.3, 1.0, 50)
    if isinstance(metric, CalibrationError):
        metric = CalibrationError(3, "uniform")
    found = metric.measure(y, scores, weight)
    for i in range(50):
        up, down = weight.copy(), weight.copy()
        up[i] += 1e-6
        down[i] -= 1e-6
        difference = metric.measure(y, scores, up).value - metric.measure(y, scores, down).value
        assert found.influence[i] == pytest.approx(weight[i] * difference / 2e-6, abs=1e-8)
    assert found.influence.sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("metric", TWO_CLASSES, ids=repr)
@given(sample=samples())
@settings(max_examples=15)
def test_laws_of_all_metrics(metric, sample):
    y, a, weight = sample
    found = metric.interval(y, a, sample_weight=weight)
    assert found.low <= found.value <= found.high
    assert found.value == metric(y, a, sample_weight=weight)
    # Weights have no unit, and an example of weight zero is as good as absent.
    assert metric(y, a, sample_weight=4.0 * weight) == found.value
    more = metric.interval(np.append(y, 1), np.append(a, 0.5), sample_weight=np.append(weight, 0.0))
    assert more == found
    # Everyone a group of his own: the same, up to factors of the sample size.
    alone = metric.interval(y, a, groups=np.arange(len(y)))
    plain = metric.interval(y, a)
    assert alone.value == plain.value
    if plain.standard_error > 1e-9:
        assert alone.standard_error == pytest.approx(plain.standard_error, rel=0.5)
    # A score does not differ from itself, and comparisons mirror.
    same = metric.compare(y, a, a)
    assert (same.difference, same.p_value) == (0.0, 1.0)
    there, back = metric.compare(y, a, a[::-1]), metric.compare(y, a[::-1], a)
    assert there.difference == -back.difference
    assert there.p_value == pytest.approx(back.p_value)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_repeated_examples_in_groups_are_no_evidence():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], [80, 40])
    scores = rng.normal(size=120) + y
    once = AveragePrecision().interval(y, scores, groups=np.arange(120))
    five = AveragePrecision().interval(
        np.repeat(y, 5), np.repeat(scores, 5), groups=np.repeat(np.arange(120), 5)
    )
    assert five.value == pytest.approx(once.value)
    assert five.standard_error == pytest.approx(once.standard_error)


def test_ties_at_the_cut_count_by_their_expectation():
    y, scores = np.array([1, 0, 0, 1, 0]), np.array([2.0, 1.0, 1.0, 1.0, 0.0])
    # One place is left for three that tie, one of them positive.
    assert PrecisionAt(2)(y, scores) == pytest.approx((1 + 1 / 3) / 2)
    assert RecallAt(2)(y, scores) == pytest.approx((1 + 1 / 3) / 2)
    assert PrecisionAt(1)(y, scores) == 1.0
    assert PrecisionAt(5)(y, scores) == pytest.approx(0.4)
    assert EnrichmentFactor(0.2)(y, scores) == pytest.approx(0.5 / 0.2)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_hand_till_is_scikit_learns_one_against_one(n_classes):
    rng = np.random.default_rng(3)
    y = rng.integers(0, n_classes, 120)
    probabilities = rng.dirichlet(np.ones(n_classes), 120)
    found = HandTill()(y, probabilities)
    if n_classes == 2:
        assert found == pytest.approx(sk.roc_auc_score(y, probabilities[:, 1]))
    else:
        expected = sk.roc_auc_score(y, probabilities, multi_class="ovo")
        assert found == pytest.approx(expected)
    # Influences are derivatives here too.
    weight = rng.uniform(0.5, 1.0, 120)
    measured = HandTill().measure(y, probabilities, weight)
    up = weight.copy()
    up[7] += 1e-6
    slope = (HandTill().measure(y, probabilities, up).value - measured.value) / 1e-6
    assert measured.influence[7] == pytest.approx(weight[7] * slope, abs=1e-6)


def test_hand_till_of_pairs_and_with_a_missing_class():
    y = np.array(["a", "b", "c", "a", "b", "c"])
    own = np.array([[0, 0, 5], [1, 5, 0], [5, 1, 1], [0, 0, 5], [1, 5, 0], [5, 1, 1]], float)
    assert HandTill(pairs=True)(y, own) == 1.0
    some = y != "c"
    assert HandTill(pairs=True, classes=("a", "b", "c"))(y[some], own[some]) == 1.0
    with pytest.raises(ValueError, match="must have 1 columns for 2 classes, got 3; name all"):
        HandTill(pairs=True)(y[some], own[some])
    with pytest.raises(ValueError, match="y holds 'c', which is not in classes"):
        HandTill(classes=("a", "b"))(y, own[:, :2])
    with pytest.raises(ValueError, match="at least two classes, got 1"):
        HandTill(classes=("a", "b"))(["a", "a"], np.ones((2, 2)))


def test_cheapest_threshold_is_the_best_of_all():
    rng = np.random.default_rng(4)
    for _ in range(30):
        y = np.array([0, 1, *rng.integers(0, 2, 20)])
        scores = rng.integers(0, 8, 22).astype(float)
        costs = {"false_positive": rng.uniform(0.1, 2), "false_negative": rng.uniform(0.1, 2)}
        cut = cheapest_threshold(y, scores, **costs)
        best = min(ExpectedCost(**costs, threshold=t)(y, scores) for t in np.arange(-0.5, 8, 0.5))
        assert ExpectedCost(**costs, threshold=cut)(y, scores) == pytest.approx(best)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PartialAUC(0.0), r"max_fpr must lie in \(0, 1\], got 0.0"),
        (lambda: PartialAUC(1.5), r"max_fpr must lie in \(0, 1\], got 1.5"),
        (lambda: PartialAUC(math.nan), r"max_fpr must lie in \(0, 1\], got nan"),
        (lambda: PartialAUC(0.5, 1.0), r"min_tpr must lie in \[0, 1\), got 1.0"),
        (lambda: PrecisionAt(0), "k must be at least 1, got 0"),
        (lambda: RecallAt(7)([0, 1], [0, 1]), "at most the number of examples, got 7 for 2"),
        (lambda: EnrichmentFactor(0.0), r"share must lie in \(0, 1\], got 0.0"),
        (lambda: ExpectedCost(false_negative=0.0), "false_negative must be a positive number"),
        (lambda: ExpectedCost(threshold=math.inf), "threshold must be a finite number"),
        (lambda: CalibrationError(strategy="odd"), '"quantile" or "uniform", got \'odd\''),
        (lambda: BrierScore()([0, 1], [-3.0, 2.0]), "probabilities between 0 and 1 for Brier"),
        (lambda: AveragePrecision()([0, 1], [0.0, math.nan]), "NaN or infinity"),
        (lambda: AveragePrecision()([0, 1], [0, 1], sample_weight=[0, 0]), "0 for every example"),
        (
            lambda: AveragePrecision().interval([0, 1], [0, 1], groups=[1]),
            "groups must hold one group for each of 2 examples",
        ),
        (lambda: HandTill()([0, 1], [0.0, 1.0]), "must be a matrix with one row for each of 2"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_every_metric_has_a_name():
    assert {type(metric) for metric in TWO_CLASSES} | {HandTill} == set(METRICS.values())


def test_limits_of_a_share_are_those_of_wilson_and_of_the_score_test():
    from scipy.stats import binomtest, norm

    z = norm.ppf(0.975)
    for caught, n in ((0, 10), (3, 10), (9, 10), (10, 10), (60, 200)):
        share = caught / n
        error = math.sqrt(share * (1.0 - share) / n)
        wanted = binomtest(caught, n).proportion_ci(method="wilson")
        found = share_limits(share, error, (n, n), z)
        assert found == pytest.approx((wanted.low, wanted.high), abs=1e-12)
        # Beyond the binomial: the limits are where the test just rejects, or the ends.
        for more, size in ((0.01, (n, n)), (0.0, (n / 4, n)), (0.02, (n / 4, n))):
            error = math.sqrt(share * (1.0 - share) / n + more)
            spread = share * (1.0 - share)
            m = min(max(spread / error**2, size[0]), size[1]) if error else size[0]
            excess = max(error**2 - spread / m, 0.0)
            for p in share_limits(share, error, size, z):
                inside = 0.0 < p < 1.0
                assert (share - p) ** 2 == pytest.approx(z**2 * (p * (1 - p) / m + excess)) or (
                    not inside and (share - p) ** 2 <= z**2 * excess + 1e-12
                )


def literal_obuchowski(y, scores, groups):
    """Return the variance of a clustered AUC, equations of Obuchowski (1997), over all pairs."""
    up, down = scores[y == 1], scores[y == 0]
    wins = (up[:, None] > down) + 0.5 * (up[:, None] == down)
    auc, m, n = wins.mean(), len(up), len(down)
    names = np.unique(groups)
    of_up = [np.sum(wins.mean(axis=1)[groups[y == 1] == g] - auc) for g in names]
    of_down = [np.sum(wins.mean(axis=0)[groups[y == 0] == g] - auc) for g in names]
    i10, i01, i = len(set(groups[y == 1])), len(set(groups[y == 0])), len(names)
    s10 = i10 / ((i10 - 1) * m) * np.sum(np.square(of_up))
    s01 = i01 / ((i01 - 1) * n) * np.sum(np.square(of_down))
    s11 = i / (i - 1) * np.sum(np.multiply(of_up, of_down))
    return s10 / m + s01 / n + 2 * s11 / (m * n)


@pytest.mark.parametrize("mixed", [False, True])
def test_grouped_variance_is_obuchowskis(mixed):
    rng = np.random.default_rng(8)
    groups = np.sort(rng.integers(0, 9, 60))
    y = rng.integers(0, 2, 60) if mixed else (groups < 3).astype(int)
    scores = np.round(rng.normal(size=60) + y + 0.7 * rng.normal(size=9)[groups], 1)
    found = PartialAUC().interval(y, scores, groups=groups)
    assert found.standard_error**2 == pytest.approx(literal_obuchowski(y, scores, groups))
    # Each example a group of its own: the interval without groups.
    alone = PartialAUC().interval(y, scores, groups=np.arange(60))
    plain = PartialAUC().interval(y, scores)
    assert (alone.low, alone.high) == pytest.approx((plain.low, plain.high), abs=1e-12)
    assert alone.standard_error == pytest.approx(plain.standard_error, abs=1e-14)


def test_degrees_of_freedom_count_the_groups_that_matter():
    # Groups of one class: Satterthwaite's degrees from the ratios of the sums of each group.
    rng = np.random.default_rng(9)
    groups = np.repeat(np.arange(12), 4)
    y = (groups < 4).astype(int)
    p = np.clip(0.3 + 0.3 * y + 0.2 * rng.normal(size=12)[groups], 0.01, 0.99)
    p = np.clip(p + 0.05 * rng.normal(size=48), 0.0, 1.0)
    found = BrierScore().interval(y, p, groups=groups)
    total = below = 0.0
    value = np.mean((p - y) ** 2)
    for label in (0, 1):
        psi = ((p - y) ** 2 - value)[y == label] / 48
        sums, d = psi.reshape(-1, 4).sum(axis=1), [psi.max() - psi, psi - psi.min()]
        d = [x.reshape(-1, 4).sum(axis=1) for x in d]
        part = (sums**2).sum() * len(sums) / (len(sums) - 1)
        total += part
        below += part**2 / min(x.sum() ** 2 / (x**2).sum() for x in d)
    assert found.standard_error == pytest.approx(math.sqrt(total))
    half = stats.t.ppf(0.975, total**2 / below) * found.standard_error / (value * (1 - value))
    logit = math.log(value / (1 - value))
    assert found.low == pytest.approx(1 / (1 + math.exp(half - logit)))
    assert found.high == pytest.approx(1 / (1 + math.exp(-half - logit)))
    # A share of the top has Student's quantile for all groups.
    top = PrecisionAt(8).measure(y, p, np.ones(48))
    sums = np.bincount(groups, top.draws)
    size = 8**2 / float(sums @ sums), 8.0
    share = PrecisionAt(8).interval(y, p, groups=groups)
    wanted = share_limits(share.value, share.standard_error, size, stats.t.ppf(0.975, 11))
    assert (share.low, share.high) == pytest.approx(wanted)


def test_a_bound_for_hand_till_counts_the_rarest_pair():
    y = np.repeat([0, 1, 2], [3, 8, 20])
    right = np.column_stack([y, y, y]).astype(float)
    found = HandTill(pairs=True).compare(y, right, -right)
    assert (found.difference, found.standard_error) == (1.0, 0.0)
    assert found.p_value == pytest.approx(2.0 * math.exp(-0.5 * 3))


def test_average_precision_is_too_high_for_few_positives():
    """The lower limit starts from a value in which no positive counts itself."""
    rng = np.random.default_rng(11)
    y = np.repeat([0, 1], [500, 6])
    scores = rng.normal(size=506) + y
    found = AveragePrecision().measure(y, scores, np.ones(506))
    up, down = scores[y == 1], scores[y == 0]
    above = np.array([(up > s).sum() for s in up]) * 6 / 5
    beaten = np.array([(down > s).sum() for s in up])
    without = np.mean(above / np.maximum(above + beaten, 1e-300))
    wanted = found.value - (1 - found.value) * (found.value - without)
    assert found.cautious == pytest.approx(wanted)


def test_a_perfect_score_is_bounded_by_the_number_of_groups():
    # Five groups of four: as if five coins had shown heads, 1 - (alpha / 2)^(1/5).
    y = np.tile([0, 1], 10)
    found = BrierScore().interval(y, y.astype(float), groups=np.repeat(np.arange(5), 4))
    assert (found.low, found.standard_error) == (0.0, 0.0)
    assert found.high == pytest.approx(1.0 - 0.025 ** (1 / 5))
    assert BrierScore().interval(y, y.astype(float)).high == pytest.approx(1.0 - 0.025 ** (1 / 20))


def test_a_top_without_losses_has_wilsons_interval():
    # All examples around the cut are positive: nothing varies.
    y = np.repeat([0, 1], [40, 60])
    found = PrecisionAt(8).interval(y, y + np.linspace(0.0, 0.5, 100))
    z = stats.norm.ppf(0.975)
    assert (found.value, found.high, found.standard_error) == (1.0, 1.0, 0.0)
    assert found.low == pytest.approx(8 / (8 + z**2))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n", "positives"), [(30, 11), (200, 4)])
@pytest.mark.parametrize("kind", [PrecisionAt, RecallAt, EnrichmentFactor])
def test_influences_at_a_cut_follow_its_formula(kind, n, positives, ties):
    # A weight more moves the cut: what enters above drives out a mix as positive as the window.
    rng = np.random.default_rng(4)
    scores = np.round(rng.normal(size=n), 0 if ties else 6)
    y = np.zeros(n, dtype=int)
    y[np.argsort(-scores, kind="stable")[3 : 3 + 2 * positives : 2]] = 1
    weight = rng.uniform(0.5, 2.0, n)
    share = 0.2 if n == 30 else 0.03
    metric = kind(share if kind is EnrichmentFactor else round(share * n))
    found = metric.measure(y, scores, weight)
    assert found.influence.sum() == pytest.approx(0.0, abs=1e-12)
    above = np.array([np.clip((share * weight.sum() - weight[scores > t].sum())
                              / weight[scores == t].sum(), 0.0, 1.0) for t in scores])  # fmt: skip
    near = int((above == 1.0).sum())
    width = math.ceil(0.5 * min(n, 2 * (near + positives)) ** (2 / 3))
    # the part of the examples of each score that lies in the window, in any order of ties
    end = np.array([(scores >= t).sum() for t in scores])
    begin = np.array([(scores > t).sum() for t in scores])
    window = np.clip(np.minimum(end, near + width) - np.maximum(begin, near - width), 0, None)
    window = window / (end - begin)
    mix = (weight * y * window).sum() / (weight * window).sum()
    assert ties or 0.0 < mix < 1.0
    caught, size, positives = (weight * y * above).sum(), share * weight.sum(), (weight * y).sum()
    moved = weight * (above * y - mix * (above - share))
    wanted = {
        PrecisionAt: moved / size - caught * weight * share / size**2,
        RecallAt: moved / positives - caught * weight * y / positives**2,
        EnrichmentFactor: (moved / positives - caught * weight * y / positives**2) / share,
    }[kind]
    assert found.influence == pytest.approx(wanted, abs=1e-12)


def test_a_value_inside_whose_terms_are_equal_has_hoeffdings_bound():
    # Every prediction is 1/2, and every term 1/4; nothing varies, but the next may.
    y = np.tile([0, 1], 20)
    found = BrierScore().interval(y, np.full(40, 0.5), confidence=0.9)
    half = math.sqrt(math.log(2 / 0.1) / 80)
    assert (found.value, found.standard_error) == (0.25, 0.0)
    assert (found.low, found.high) == pytest.approx((0.25 - half, 0.25 + half))
    # One group says nothing: the bound for one term is the whole range.
    one = BrierScore().interval(y, np.linspace(0.1, 0.9, 40), groups=np.zeros(40))
    assert (one.low, one.high) == (0.0, 1.0)
    assert math.isnan(one.standard_error)


@pytest.mark.parametrize("beyond", [-1e-9, 1.0 + 1e-9])
def test_probabilities_lie_between_0_and_1(beyond):
    BrierScore()([0, 1, 1], [0.0, 0.5, 1.0])
    with pytest.raises(ValueError, match="scores must be probabilities between 0 and 1"):
        BrierScore()([0, 1, 1], [0.0, beyond, 1.0])


def test_the_mean_over_pairs_of_classes_counts_pairs_of_examples():
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 4, 40)
    scores = rng.integers(-2, 3, (40, 6)).astype(float)
    weight = rng.integers(0, 3, 40).astype(float)
    areas, column = [], 0
    for a in range(4):
        for b in range(a + 1, 4):
            won = total = 0.0
            for i in np.flatnonzero(codes == a):
                for j in np.flatnonzero(codes == b):
                    low, high = scores[i, column], scores[j, column]
                    won += weight[i] * weight[j] * (1.0 if high > low else 0.5 * (high == low))
                    total += weight[i] * weight[j]
            areas.append(won / total)
            column += 1
    found = mean_pair_auc(codes, scores, weight, 4)
    assert found == pytest.approx(np.mean(areas), abs=1e-13)


def test_the_interval_of_a_part_does_not_depend_on_its_units():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], [80, 25])
    scores = rng.normal(size=105) + 1.5 * y
    for part in ({"max_fpr": 0.3}, {"max_fpr": 0.5, "min_tpr": 0.4}):
        raw = PartialAUC(**part, standardised=False).interval(y, scores)
        unit = PartialAUC(**part).interval(y, scores)
        # McClish: from chance to the best area goes to from 1/2 to 1.
        best = part["max_fpr"] * (1 - part.get("min_tpr", 0.0))
        chance = max(part["max_fpr"] - part.get("min_tpr", 0.0), 0.0) ** 2 / 2
        for end in ("value", "low", "high"):
            moved = 0.5 * (1 + (getattr(raw, end) - chance) / (best - chance))
            assert getattr(unit, end) == pytest.approx(moved, abs=1e-9)
        size = unit.standard_error * 2 * (best - chance)
        assert raw.standard_error == pytest.approx(size)


def test_a_bound_for_equal_differences_is_in_the_units_of_the_metric():
    # All terms differ by the same, here half of a range of 2: Hoeffding's bound for 16 terms.
    class Distance(Metric):
        def measure(self, labels, scores, weight):
            distance = np.abs(scores - labels)
            value = float(weight @ distance) / float(weight.sum())
            return Measured(value, weight * (distance - value), len(labels), ceiling=2.0)

    y = np.tile([0.0, 1.0], 8)
    found = Distance().compare(y, y + 1.0, y)
    assert (found.difference, found.standard_error) == (1.0, 0.0)
    assert found.p_value == pytest.approx(2 * math.exp(-0.5 * 16 * 0.25))
    half = 2 * math.sqrt(2 * math.log(40) / 16)
    assert (found.low, found.high) == pytest.approx((1.0 - half, 2.0))


def test_an_interval_of_no_difference_is_mirrored_too():
    rng = np.random.default_rng(64)
    y = rng.random(30) < 0.4
    a, b = rng.random((2, 30))
    metric = PrecisionAt(5)
    there, back = metric.compare(y, a, b), metric.compare(y, b, a)
    assert there.difference == 0.0
    assert there.standard_error > 0.0
    assert there.high != pytest.approx(-there.low, rel=0.1)  # one is surer than the other
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


@pytest.mark.parametrize(
    ("metric", "seed"), [(PartialAUC(0.3), 26), (PartialAUC(0.3), 5), (PartialAUC(0.5, 0.3), 38)]
)
def test_rounding_does_not_choose_the_side_of_a_corner(metric, seed):
    # The part ends at a corner, which weights in another unit meet up to rounding.
    scores = np.random.default_rng(seed).permutation(20)
    y, weight = np.repeat([0, 1], 10), np.tile([1.0, 2.0, 3.0, 1.0, 3.0], 4)
    exact = metric.interval(y, scores, sample_weight=weight)
    for unit in (0.1, 0.7, 1.1, 7.3):
        found = metric.interval(y, scores, sample_weight=unit * weight)
        assert found.standard_error == pytest.approx(exact.standard_error, rel=1e-9)
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high), rel=1e-9)
