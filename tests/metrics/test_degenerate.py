# SPDX-License-Identifier: BSD-3-Clause
"""Samples at the edge: one positive, ties everywhere, k = 1, a class that is missing in a fold."""

import math
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import KFold, cross_val_score

from pairlearn.metrics import (
    AveragePrecision,
    BrierScore,
    CalibrationError,
    ConcordanceIndex,
    EnrichmentFactor,
    ExpectedCost,
    HandTill,
    PartialAUC,
    PrecisionAt,
    RecallAt,
    calibration_curve,
    cheapest_threshold,
    compare_auc,
    error_entropy,
    pair_accuracy,
    pair_risk,
    precision_recall_band,
    roc_auc,
    roc_auc_interval,
    roc_band,
    scorer,
)

METRICS = [
    PartialAUC(), PartialAUC(0.05), PartialAUC(0.3, 0.5), AveragePrecision(), PrecisionAt(1),
    PrecisionAt(3), RecallAt(1), EnrichmentFactor(0.01), EnrichmentFactor(1.0), ExpectedCost(),
    BrierScore(), CalibrationError(),
]  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.validation.AssumptionWarning")


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@pytest.mark.parametrize(
    ("y", "scores"),
    [
        ([0, 0, 0, 1], [0.1, 0.2, 0.3, 0.9]),
        ([0, 0, 0, 1], [0.9, 0.2, 0.3, 0.1]),
        ([0, 1, 1, 1], [0.4, 0.2, 0.3, 0.9]),
        ([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5]),
        ([0, 1, 0, 1, 1], [0.0, 0.0, 1.0, 1.0, 1.0]),
    ],
    ids=["one positive", "one positive, last", "one negative", "constant", "ties"],
)
def test_values_are_defined_and_intervals_hold_them(metric, y, scores):
    found = metric.interval(y, scores)
    assert math.isfinite(found.value)
    assert found.low <= found.value <= found.high
    assert found.value == metric(y, scores)
    same = metric.compare(y, scores, scores)
    assert same.difference == 0.0
    assert 0.0 <= same.p_value <= 1.0


def test_values_at_the_edge_are_scikit_learns():
    for y, scores in (([0, 0, 0, 1], [0.9, 0.2, 0.3, 0.1]), ([0, 1, 0, 1], [0.5] * 4),
                      ([0, 1, 0, 1, 1], [0.0, 0.0, 1.0, 1.0, 1.0])):  # fmt: skip
        assert AveragePrecision()(y, scores) == pytest.approx(average_precision_score(y, scores))
        assert PartialAUC()(y, scores) == pytest.approx(roc_auc_score(y, scores))
        assert PartialAUC(0.3)(y, scores) == pytest.approx(
            roc_auc_score(y, scores, max_fpr=0.3), abs=1e-12
        )


def test_curves_of_ties_and_single_examples():
    for y, scores in (([0, 0, 1, 1], [0.5] * 4), ([0, 0, 0, 1], [0.1, 0.2, 0.3, 0.9])):
        roc = roc_band(y, scores, n_resamples=50)
        assert (roc.low <= roc.tpr).all()
        assert (roc.tpr <= roc.high).all()
        band = precision_recall_band(y, scores, n_resamples=50)
        assert (band.low <= band.precision).all()
        assert (band.precision <= band.high).all()
        curve = calibration_curve(y, scores)
        assert (curve.low <= curve.observed).all()


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.5, math.nan, math.inf])
def test_false_positive_rates_that_are_none(bad):
    with pytest.raises(ValueError, match=r"max_fpr must .*\(0, 1\]"):
        PartialAUC(bad)
    with pytest.raises(ValueError, match="share must lie in"):
        EnrichmentFactor(bad)


def test_counts_that_are_none():
    for wrong in (0, -1, 1.5):
        with pytest.raises((ValueError, TypeError), match="k"):
            PrecisionAt(wrong)
    with pytest.raises(ValueError, match="k must be at most the number of examples, got 5 for 4"):
        RecallAt(5)([0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("metric", [m for m in METRICS if not m.of_probabilities], ids=repr)
def test_one_class_is_refused(metric):
    with pytest.raises(ValueError, match="class"):
        metric([1, 1, 1], [0.1, 0.2, 0.3])


def test_a_class_that_is_missing_in_a_fold():
    X, y = load_iris(return_X_y=True)
    # Without shuffling the first and the last fold have one class and no pair, the second has two.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = cross_val_score(
            LogisticRegression(max_iter=300), X, y, cv=KFold(5), scoring=scorer("hand_till")
        )
    assert np.isnan(values[[0, 4]]).all()
    assert 0.5 < values[1] <= 1.0
    # Two of three classes are there: the mean is over the pairs that are.
    fitted = LogisticRegression(max_iter=300).fit(X, y)
    some = y != 1
    assert scorer("hand_till")(fitted, X[some], y[some]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="class"):
        HandTill(classes=(0, 1, 2))(y[:5], fitted.predict_proba(X[:5]))
    Z, z = make_classification(60, random_state=0)
    two = LogisticRegression(max_iter=300).fit(Z, z)
    with pytest.raises(ValueError, match="class"):
        scorer("average_precision")(two, Z[z == 1], z[z == 1])


@pytest.mark.parametrize(
    "labels",
    [[1.0, math.nan, 1.0, math.nan], [1, None, 1, None], ["a", math.nan, "a", math.nan],
     np.array([1, None] * 2, dtype=object), np.array(["2020-01-01", "NaT"] * 2, dtype="M8[D]")],
    ids=["NaN", "None", "text", "object", "NaT"],
)  # fmt: skip
def test_a_missing_label_is_no_class(labels):
    scores = [0.1, 0.4, 0.35, 0.8]
    measures = [*METRICS, roc_auc, roc_auc_interval, roc_band, calibration_curve]
    measures.append(cheapest_threshold)
    for measure in measures:
        with pytest.raises(ValueError, match="y has no label in row 1"):
            measure(labels, scores)
    with pytest.raises(ValueError, match="y has no label in row 1"):
        compare_auc(labels, scores, scores)


def test_a_missing_group_is_no_group():
    for groups in ([1.0, math.nan, math.nan, 2.0], ["a", None, None, "b"]):
        with pytest.raises(ValueError, match="groups has no group in row 1"):
            AveragePrecision().interval([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], groups=groups)


def test_masked_scores_are_refused():
    scores = np.ma.masked_greater([0.1, 0.4, 0.35, 0.8], 0.5)
    with pytest.raises(ValueError, match="masked array with 1 masked"):
        roc_auc([0, 0, 1, 1], scores)


@pytest.mark.parametrize("metric", [AveragePrecision(), BrierScore(), HandTill()], ids=repr)
def test_no_example_is_named_as_such(metric):
    with pytest.raises(ValueError, match="y is empty"):
        metric([], np.zeros((0, 3)) if metric == HandTill() else [])


def test_a_class_has_one_column():
    with pytest.raises(ValueError, match="classes must differ"):
        HandTill(classes=[0, 1, 1])


@pytest.mark.parametrize("metric", [roc_auc, cheapest_threshold])
def test_a_third_label_of_weight_zero_is_absent(metric):
    y, scores = [0, 2, 0, 1, 1], [0.0, 9.0, 1.9, 1.0, 3.0]
    found = metric(y, scores, sample_weight=[1, 0, 2, 1, 1])
    assert found == metric([0, 0, 1, 1], [0.0, 1.9, 1.0, 3.0], sample_weight=[1, 2, 1, 1])
    with pytest.raises(ValueError, match="exactly two classes, got 3"):
        metric(y, scores, sample_weight=[1, 1, 2, 1, 1])
    with pytest.raises(ValueError, match="an example of weight 0 is absent"):
        metric([0, 0, 1], [0.0, 1.0, 2.0], sample_weight=[1, 1, 0])


def test_the_unit_of_weights_does_not_matter():
    rng = np.random.default_rng(0)
    y, scores, weight = rng.integers(0, 2, 50), rng.standard_normal(50), rng.random(50)
    found = roc_auc(y, scores, sample_weight=weight)
    for unit in (2.0**1023, 2.0**-900):
        assert roc_auc(y, scores, sample_weight=unit * weight) == found


@pytest.mark.parametrize(
    "measure",
    [
        lambda y, s, weight: roc_auc(y, s, sample_weight=weight),
        lambda y, s, weight: PartialAUC().interval(y, s, sample_weight=weight),
        lambda y, s, weight: pair_risk("hinge", s, y, sample_weight=weight),
    ],
)
def test_weights_whose_ratio_is_no_number_are_refused(measure):
    with pytest.raises(ValueError, match=r"sample_weight holds 1e-200 beside 1e\+200"):
        measure([0, 0, 1, 1], [0.0, 2.0, 1.0, 3.0], [1e-200, 1e-200, 1e200, 1e200])


def test_rounding_does_not_choose_among_equally_cheap_thresholds():
    # Several thresholds make as few mistakes; the largest counts.
    y = [0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0]
    plain = cheapest_threshold(y, np.arange(16))
    assert cheapest_threshold(y, np.arange(16), sample_weight=np.full(16, 0.3)) == plain


@pytest.mark.parametrize("dear", [1e3, 1e13, 1e308])
def test_a_dear_error_does_not_hide_the_other_one(dear):
    # The best threshold without a false positive, and the best without a missed positive.
    y, scores = [0, 1, 0, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0]
    for weight in (None, np.full(5, 0.3)):
        assert cheapest_threshold(y, scores, false_positive=dear, sample_weight=weight) == 3.5
        assert cheapest_threshold(y, scores, false_negative=dear, sample_weight=weight) == 1.5


def test_the_cheapest_threshold_of_huge_scores_is_finite():
    scores = np.array([-1.7e308, -1.6e308, -1.5e308, -1.4e308])
    for sign in (1.0, -1.0):
        found = cheapest_threshold([0, 0, 1, 1] if sign > 0 else [1, 1, 0, 0], sign * scores)
        assert sign * found == pytest.approx(-1.55e308)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_the_order_of_tied_rows_does_not_matter(metric):
    # weights of thirds: sums differ in their last place
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 2, 40), rng.integers(0, 4, 40) / 4.0
    weight = rng.integers(1, 4, 40)
    found = metric.interval(y, scores, sample_weight=weight)
    for order in (np.argsort(y), np.argsort(-y)):
        other = metric.interval(y[order], scores[order], sample_weight=weight[order])
        assert (other.low, other.high) == pytest.approx((found.low, found.high), rel=1e-9)
        assert other.standard_error == pytest.approx(found.standard_error, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda value: PartialAUC(max_fpr=value),
        lambda value: PartialAUC(min_tpr=value),
        EnrichmentFactor,
        lambda value: ConcordanceIndex(tau=value),
        lambda value: ExpectedCost(threshold=value),
    ],
)
@pytest.mark.parametrize("value", [True, np.True_, "0.5", [0.5, 0.6]])
def test_a_share_a_time_or_a_threshold_is_a_number(make, value):
    with pytest.raises(TypeError, match="must be a number, got"):
        make(value)


def test_scores_that_are_texts_are_named():
    with pytest.raises(ValueError, match="scores_b must hold numbers: could not convert"):
        compare_auc([0, 1], [0.1, 0.2], ["low", "high"])


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object])
def test_whole_numbers_that_a_float_confuses_are_refused(kind):
    """2^60 and 2^60 + 1 were a tie: the AUC of a score that orders all pairs was 1/2."""
    large = np.array([2**60 + k for k in (0, 1, 2, 3)], dtype=kind)
    for name, measure in (
        ("scores", lambda: roc_auc([0, 1, 0, 1], large)),
        ("scores_a", lambda: compare_auc([0, 1, 0, 1], large, large)),
        ("y", lambda: pair_accuracy([*large.tolist(), 0], [1, 2, 3, 4, 0])),
        ("scores", lambda: HandTill()([0, 1, 0, 1], large.reshape(-1, 1).repeat(2, 1))),
        ("y", lambda: ConcordanceIndex()(np.column_stack((large > 0, large)), [1, 2, 3, 4])),
        ("errors", lambda: error_entropy(large, 1.0)),
    ):
        with pytest.raises(
            ValueError, match=rf"^{name} holds different whole numbers beyond 2\^53"
        ):
            measure()
    # Those that are told apart, and equal ones, are taken.
    assert roc_auc([0, 1, 0, 1], np.array([0, 3, 1, 3], dtype=kind) * 2**58) == 1.0
    # Weights have no order.
    assert roc_auc([0, 1, 0, 1], [1, 2, 1, 2], sample_weight=large) == 1.0


def test_numbers_too_large_for_a_float_are_named():
    with pytest.raises(ValueError, match="scores must hold numbers: int too large to convert"):
        roc_auc([0, 1], [1, 10**400])


@pytest.mark.parametrize("column", [0, 1])
def test_masked_events_and_times_are_refused(column):
    """The values below the mask were used."""
    mask = np.zeros((4, 2), dtype=bool)
    mask[2, column] = True
    table = np.ma.masked_array([[1.0, 1.0], [1.0, 2.0], [0.0, 3.0], [1.0, 4.0]], mask)
    fields = np.ma.zeros(4, dtype=[("event", "?"), ("time", "<f8")])
    for k, name in enumerate(("event", "time")):
        fields[name] = table[:, k]
    for y in (table, fields):
        with pytest.raises(ValueError, match="masked array with 1 masked values"):
            ConcordanceIndex()(y, [4, 3, 2, 1])
