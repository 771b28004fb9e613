# SPDX-License-Identifier: BSD-3-Clause
"""The concordance index against all pairs written out, with its influences and its intervals."""

import numpy as np
import pytest

from pairlearn.metrics import ConcordanceIndex
from pairlearn.metrics.concordance import censoring_free


def plain_chance(event, time, weight):
    """Return Kaplan and Meier's chance not to be censored before each time, factor by factor."""
    chance = np.ones(len(time))
    for i, t in enumerate(time):
        for s in np.unique(time[time < t]):
            lost = weight[(time == s) & ~event].sum()
            chance[i] *= 1.0 - lost / (weight[time > s].sum() + lost)
    return chance


def plain_index(event, time, scores, weight=None, *, ipcw=False, tau=np.inf):
    """Return the index over all pairs, one after the other."""
    weight = np.ones(len(time)) if weight is None else weight
    inverse = plain_chance(event, time, weight) ** -2.0 if ipcw else np.ones(len(time))
    won = total = 0.0
    for i in np.flatnonzero(event & (time < tau)):
        for j in range(len(time)):
            if time[j] > time[i] or (time[j] == time[i] and not event[j]):
                mass = weight[i] * weight[j] * inverse[i]
                total += mass
                won += mass * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
    return won / total


def few(seed, n=14):
    """Return few examples with ties of times and of scores."""
    rng = np.random.default_rng(seed)
    event, time = rng.random(n) < 0.6, rng.integers(0, 8, n).astype(float)
    event[0], time[0], time[1] = True, 0.0, 9.0
    return event, time, rng.integers(0, 5, n).astype(float), rng.uniform(0.1, 1.0, n)


def simulated(rng, n, slope=1.0, late=0.0):
    """Return events, times and the true log hazards; censoring by a log-normal time."""
    risk = rng.normal(size=n)
    time, end = rng.exponential(np.exp(-slope * risk)), np.exp(rng.normal(size=n) + late)
    return np.rec.fromarrays([time <= end, np.minimum(time, end)], names="event,time"), risk


@pytest.mark.parametrize("ipcw", [False, True])
@pytest.mark.parametrize("tau", [None, 5.0])
@pytest.mark.parametrize("seed", range(8))
def test_the_index_is_that_of_all_pairs(seed, ipcw, tau):
    event, time, scores, weight = few(seed)
    metric = ConcordanceIndex(ipcw=ipcw, tau=tau)
    options = {"ipcw": ipcw, "tau": np.inf if tau is None else tau}
    y = np.column_stack((event, time))
    expected = plain_index(event, time, scores, **options)
    assert metric(y, scores) == pytest.approx(expected, abs=1e-13)
    expected = plain_index(event, time, scores, weight, **options)
    assert metric(y, scores, sample_weight=3.0 * weight) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("ipcw", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_influences_are_derivatives_by_weights(seed, ipcw):
    event, time, scores, weight = few(seed)
    labels = np.rec.fromarrays([event, time], names="event,time")
    found = ConcordanceIndex(ipcw=ipcw).measure(labels, scores, weight)
    for i in range(len(time)):
        step = np.zeros(len(time))
        step[i] = 1e-6
        ends = [plain_index(event, time, scores, weight + s, ipcw=ipcw) for s in (step, -step)]
        assert weight[i] * (ends[0] - ends[1]) / 2e-6 == pytest.approx(found.influence[i], abs=1e-8)
    assert found.influence.sum() == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("ipcw", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_noise_of_pairs_is_their_squared_deviations(ipcw, weighted):
    event, time, scores, weight = few(1)
    weight = weight if weighted else np.full(len(time), 0.5)
    labels = np.rec.fromarrays([event, time], names="event,time")
    found = ConcordanceIndex(ipcw=ipcw).measure(labels, scores, weight)
    mass = weight / (censoring_free(labels, weight) ** 2 if ipcw else 1.0)
    total = noise = 0.0
    for i in np.flatnonzero(event):
        for j in np.flatnonzero((time > time[i]) | ((time == time[i]) & ~event)):
            own = mass[i] * weight[j]
            won = 0.5 + 0.5 * np.sign(scores[i] - scores[j])
            total, noise = total + own, noise + (own * (won - found.value)) ** 2
    assert found.pair_noise == pytest.approx(noise / total**2, rel=1e-12)


@pytest.mark.parametrize("slope", [1.0, 12.0])
def test_the_variance_is_that_of_many_samples(slope):
    rng = np.random.default_rng(5)
    found = []
    for _ in range(600):
        risk = rng.normal(size=40)
        time, end = rng.exponential(np.exp(-slope * risk)), rng.exponential(20.0, size=40)
        y = np.column_stack((time <= end, np.minimum(time, end)))
        found.append(ConcordanceIndex().interval(y, risk))
    values = np.array([one.value for one in found])
    mean = np.mean([one.standard_error**2 for one in found])
    # 600 samples know a variance to 6 %; counting the noise of pairs twice gives 1.4 for slope 12
    assert mean / values.var() == pytest.approx(0.95, abs=0.2)


def test_all_forms_of_y_are_the_same():
    event, time, scores, _ = few(3)
    expected = ConcordanceIndex()(np.column_stack((event, time)), scores)
    forms = [
        list(zip(event.tolist(), time.tolist(), strict=True)),
        np.array(list(zip(event, time, strict=True)), dtype=[("dead", "?"), ("days", "<f4")]),
        np.array(list(zip(time, event, strict=True)), dtype=[("days", "<f8"), ("dead", "?")]),
    ]
    pandas = pytest.importorskip("pandas")
    forms.append(pandas.DataFrame({"time": time, "event": event}))
    for y in forms:
        assert ConcordanceIndex()(y, scores) == expected


def test_without_censoring_the_index_is_the_pair_accuracy_of_times():
    from pairlearn.metrics import pair_accuracy

    rng = np.random.default_rng(0)
    time, scores = rng.permutation(50).astype(float), rng.normal(size=50)
    y = np.column_stack((np.ones(50), time))
    for ipcw in (False, True):
        found = ConcordanceIndex(ipcw=ipcw)(y, scores)
        assert found == pytest.approx(pair_accuracy(-time, scores), abs=1e-13)


def test_a_repeated_example_in_a_group_says_nothing_new():
    y, risk = simulated(np.random.default_rng(1), 60)
    once = ConcordanceIndex().interval(y, risk)
    twice = ConcordanceIndex().interval(
        np.concatenate((y, y)), np.concatenate((risk, risk)), groups=np.tile(np.arange(60), 2)
    )
    # an event and its copy are at one time, so the pairs differ by nothing but a factor
    assert twice.value == pytest.approx(once.value, abs=1e-12)
    # what influences count twice is taken off without groups only
    assert once.standard_error < twice.standard_error < 1.1 * once.standard_error
    alone = ConcordanceIndex().interval(y, risk, groups=np.arange(60))
    assert (alone.standard_error, alone.low) == (once.standard_error, once.low)
    assert (twice.low, twice.high) == pytest.approx((once.low, once.high), abs=0.02)
    weighted = ConcordanceIndex().interval(y, risk, sample_weight=np.full(60, 5.0))
    assert weighted == once


def test_the_standard_error_is_that_of_a_bootstrap():
    rng = np.random.default_rng(2)
    y, risk = simulated(rng, 200)
    for metric in (ConcordanceIndex(), ConcordanceIndex(ipcw=True, tau=1.0)):
        drawn = (rng.integers(200, size=200) for _ in range(400))
        values = [metric(y[rows], risk[rows]) for rows in drawn]
        # 400 draws know a standard deviation to 3.5 %
        assert metric.interval(y, risk).standard_error == pytest.approx(np.std(values), rel=0.15)


def test_scores_are_compared_in_pairs():
    rng = np.random.default_rng(3)
    y, risk = simulated(rng, 300)
    noisy = risk + rng.normal(size=300)
    found = ConcordanceIndex().compare(y, risk, noisy)
    assert found.difference == found.value_a - found.value_b > 0.0
    assert found.p_value < 1e-3
    assert 0.0 < found.low < found.difference < found.high
    alone = [ConcordanceIndex().interval(y, s).standard_error for s in (risk, noisy)]
    assert found.standard_error < np.hypot(*alone)
    same = ConcordanceIndex().compare(y, risk, 2.0 * risk)
    assert same.difference == 0.0
    assert same.p_value == 1.0


def test_a_perfect_score_and_a_single_event_have_intervals():
    y = [(True, float(t)) for t in range(12)]
    found = ConcordanceIndex().interval(y, -np.arange(12.0))
    assert found.value == found.high == 1.0
    assert 0.5 < found.low < 1.0
    y = [(True, 0.0), (False, 1.0), (False, 2.0)]
    found = ConcordanceIndex().interval(y, [1.0, 2.0, 0.0])
    assert found.value == 0.5
    assert np.isnan(found.standard_error)
    assert found.low < 0.1
    assert found.high > 0.9


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 2.0, 3.0], r"two columns.*shape \(3,\)"),
        (np.ones((3, 3)), r"left truncation"),
        ([(5.0, 1), (6.0, 0), (7.0, 1)], "true or false"),
        ([(1, np.nan), (0, 1.0), (1, 2.0)], "NaN or infinite"),
        ([("a", 1.0), (0, 1.0), (1, 2.0)], "numbers"),
        ([(0, 1.0), (0, 2.0), (0, 3.0)], "0 of 3 examples have an event"),
        ([(0, 1.0), (1, 2.0), (1, 2.0)], "none of them is followed"),
        (np.zeros(3, dtype=[("a", "?"), ("b", "f8"), ("c", "f8")]), "competing risks"),
    ],
)
def test_what_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        ConcordanceIndex()(y, np.arange(3.0))


def test_a_frame_needs_names_and_tau_a_time():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"status": [1, 0], "days": [1.0, 2.0]})
    with pytest.raises(ValueError, match='name them "event" and "time"'):
        ConcordanceIndex()(frame, [1.0, 2.0])
    with pytest.raises(ValueError, match="finite time"):
        ConcordanceIndex(tau=np.inf)
    with pytest.raises(ValueError, match=r"before tau=0\.5"):
        ConcordanceIndex(tau=0.5)([(1, 1.0), (0, 2.0)], [1.0, 2.0])


def test_tau_is_a_number_of_any_type_and_no_time_is_missing():
    y, risk = [(1, 1.0), (1, 2.0), (0, 4.0)], [1.0, 2.0, 0.0]
    expected = ConcordanceIndex(tau=2.0)(y, risk)
    assert ConcordanceIndex(tau=np.int64(2))(y, risk) == expected
    assert ConcordanceIndex(tau=np.float32(2))(y, risk) == expected
    for bad in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="finite time"):
            ConcordanceIndex(tau=bad)
    spans = np.array([(1, 1), (1, "NaT"), (0, 4)], dtype=[("event", "?"), ("time", "m8[D]")])
    with pytest.raises(ValueError, match="NaN or infinite"):
        ConcordanceIndex()(spans, risk)
    with pytest.raises(ValueError, match="complex"):
        ConcordanceIndex()(np.array(y) + 1j, risk)


def coverage(metric, n, slope, late, trials, seed):
    """Return how often intervals hold the index of 400,000 examples."""
    rng = np.random.default_rng(seed)
    truth = metric(*simulated(rng, 400_000, slope, late))
    found = [metric.interval(*simulated(rng, n, slope, late)) for _ in range(trials)]
    return np.mean([one.low <= truth <= one.high for one in found])


@pytest.mark.slow
@pytest.mark.parametrize("tau", [None, 1.0, 0.3])
@pytest.mark.parametrize(("slope", "late"), [(0.35, 1.0), (1.0, 0.0), (1.0, -1.5), (3.0, 0.0)])
@pytest.mark.parametrize("n", [100, 300])
def test_intervals_hold_the_truth_on_a_grid(n, slope, late, tau):
    metric = ConcordanceIndex(ipcw=tau is not None, tau=tau)
    # 2,000 trials: a standard deviation of .005
    assert 0.92 <= coverage(metric, n, slope, late, 2_000, n) <= 0.98
