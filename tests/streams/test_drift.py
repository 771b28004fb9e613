# SPDX-License-Identifier: BSD-3-Clause
"""Alarms: as few false ones as stated, true ones soon, the same in any chunks."""

import numpy as np
import pytest

from pairlearn import AUCClassifier, AveragePrecision, PairwiseRanker, PartialAUC, roc_auc
from pairlearn.streams import DriftAlarm, OnlineLearner, ProgressiveAUC


def stream(rng, n, share, gaps):
    y = rng.random(n) < share
    return rng.normal(size=n) + np.asarray(gaps) * y, y


@pytest.mark.parametrize(
    ("share", "block", "gap", "direction"),
    [(0.3, 100, 1.5, "drop"), (0.05, 300, 2.0, "drop"), (0.5, 60, 3.0, "drop"),
     (0.3, 100, 1.5, "both")],
)  # fmt: skip
def test_false_alarms_are_as_rare_as_stated(rng, share, block, gap, direction):
    n_blocks, each = 1200, 60
    scores, y = stream(rng, n_blocks * block, share, gap)
    alarm = DriftAlarm(each * block, block=block, direction=direction)
    # Twenty are expected at most; thirty would be a chance of one in fifty.
    assert alarm.update(scores, y) <= n_blocks / each + 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "block", "gap"), [(0.3, 100, 1.5), (0.05, 300, 2.0), (0.5, 60, 3)]
)
@pytest.mark.parametrize("direction", ["drop", "both"])
def test_rate_of_false_alarms(rng, share, block, gap, direction):
    n_blocks, each = 20_000, 100
    scores, y = stream(rng, n_blocks * block, share, gap)
    n_alarms = DriftAlarm(each * block, block=block, direction=direction).update(scores, y)
    assert n_alarms < 1.15 * n_blocks / each
    assert n_alarms > 0.1 * n_blocks / each


def test_a_drop_is_found_soon_and_dated(rng):
    late, dated, gaps = [], [], []
    for _ in range(10):
        scores, y = stream(rng, 20_000, 0.3, np.where(np.arange(20_000) < 10_000, 1.5, 0.9))
        alarm = DriftAlarm(1e5, block=100)
        assert alarm.update(scores, y) >= 1
        found = next(one for one in alarm.alarms if one.n_seen > 10_000)
        late.append(found.n_seen - 10_000)
        dated.append(abs(found.since - 10_000))
        gaps.append(found.before - found.after)
    assert np.median(late) <= 2_500
    assert np.median(dated) <= 500
    assert np.median(gaps) > 0.08


def test_an_alarm_tells_the_auc_of_blocks(rng):
    scores, y = stream(rng, 8_000, 0.3, np.where(np.arange(8_000) < 4_000, 2.0, 0.0))
    alarm = DriftAlarm(1e6, block=400)
    alarm.update(scores, y)
    found = alarm.alarms[0]
    of_blocks = [roc_auc(y[k : k + 400], scores[k : k + 400]) for k in range(0, 8_000, 400)]
    first, last = found.since // 400, found.n_seen // 400
    assert found.before == pytest.approx(np.mean(of_blocks[:first]), abs=0.02)
    assert found.after == pytest.approx(np.mean(of_blocks[first:last]), abs=0.05)


def test_a_rise_is_an_alarm_only_if_asked_for(rng):
    scores, y = stream(rng, 12_000, 0.3, np.where(np.arange(12_000) < 6_000, 0.5, 1.5))
    assert DriftAlarm(1e6, block=100).update(scores, y) == 0
    both = DriftAlarm(1e6, block=100, direction="both")
    assert both.update(scores, y) == 1
    assert both.alarms[0].after > both.alarms[0].before


def test_chunks_and_breaks_do_not_matter(rng):
    scores, y = stream(rng, 9_000, 0.1, np.where(np.arange(9_000) < 4_500, 2.0, 0.5))
    whole = DriftAlarm(2e4, block=150)
    whole.update(scores, y)
    parts = DriftAlarm(2e4, block=150)
    for begin in range(0, 9_000, 71):
        parts.update(scores[begin : begin + 71], y[begin : begin + 71])
        if begin == 71 * 40:
            parts = DriftAlarm.from_state(parts.state())
    assert parts.alarms == whole.alarms
    assert len(whole.alarms) >= 1
    assert parts.state()["mean"] == whole.state()["mean"]


def test_perfect_and_constant_scores_raise_nothing(rng):
    y = rng.random(5_000) < 0.2
    assert DriftAlarm(1e5, block=100).update(y.astype(float), y) == 0
    assert DriftAlarm(1e5, block=100).update(np.zeros(5_000), y) == 0
    # A perfect model that breaks is an alarm all the same.
    scores = np.where(np.arange(5_000) < 3_000, y.astype(float), rng.normal(size=5_000))
    assert DriftAlarm(1e5, block=100).update(scores, y) == 1
    # Without positives there are no blocks.
    assert DriftAlarm(1e5, block=100).update(np.zeros(5_000), np.zeros(5_000)) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DriftAlarm(100, block=50), "at least ten blocks, got 100"),
        (lambda: DriftAlarm(block=5), "block"),
        (lambda: DriftAlarm(direction="up"), r"direction must be one of .* got 'up'"),
        (lambda: DriftAlarm().update([0.0], [2]), "must hold True and False"),
        (lambda: DriftAlarm().update([np.nan], [1]), "NaN or infinity"),
        (lambda: DriftAlarm().update([0.0, 1.0], [1]), "vectors of one length"),
        (
            lambda: OnlineLearner(PairwiseRanker(), alarm=DriftAlarm()),
            "an alarm watches the AUC of two classes",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_learner_tells_its_alarm_and_other_metrics(rng):
    X = rng.normal(size=(6_000, 3))
    sign = np.where(np.arange(6_000) < 4_000, 1.0, -1.0)
    y = (sign * X[:, 0] + 0.5 * rng.normal(size=6_000) > 0.8).astype(int)

    def learner():
        return OnlineLearner(
            AUCClassifier(random_state=0), classes=[0, 1], window=1_000,
            alarm=DriftAlarm(1e5, block=200),
        )  # fmt: skip

    one, other = learner(), learner()
    for begin in range(0, 6_000, 500):
        part = slice(begin, begin + 500)
        one.learn_many(X[part], y[part])
        other.learn_many(X[part], y[part])
        if begin == 2_000:
            state = other.state()
            other = learner()
            other.restore(state)
    assert any(4_000 < alarm.n_seen <= 5_500 for alarm in one.alarm.alarms)
    assert other.alarm.alarms == one.alarm.alarms
    for metric in (PartialAUC(0.1), AveragePrecision()):
        assert other.measure(metric) == one.measure(metric)
    differs = OnlineLearner(AUCClassifier(random_state=0), classes=[0, 1], window=1_000,
                            alarm=DriftAlarm(1e6, block=200))  # fmt: skip
    with pytest.raises(ValueError, match="saved alarm has examples_per_false_alarm"):
        differs.restore(one.state())


def test_any_metric_of_the_window(rng):
    window = ProgressiveAUC(window=300)
    assert window.measure(AveragePrecision()) is None
    scores, y = stream(rng, 1_000, 0.2, 1.0)
    for begin in range(0, 1_000, 130):
        window.update(scores[begin : begin + 130], y[begin : begin + 130])
    for metric in (PartialAUC(0.05), AveragePrecision(), PartialAUC()):
        assert window.measure(metric) == pytest.approx(metric(y[-300:], scores[-300:]))
    assert window.value == pytest.approx(roc_auc(y[-300:], scores[-300:]))
