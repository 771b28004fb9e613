# SPDX-License-Identifier: BSD-3-Clause
"""The windowed AUC equals the AUC of the window, at every moment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pairlearn.streams.progressive import ProgressiveAUC


def expected(scores, labels, window):
    s, y = scores[-window:], labels[-window:]
    return None if len(set(y)) < 2 else roc_auc_score(y, s)


@given(
    data=st.lists(
        st.tuples(st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6)), st.booleans()),
        min_size=1,
        max_size=120,
    ),
    window=st.integers(1, 40),
)
@settings(max_examples=40, deadline=None)
def test_every_value_is_that_of_scikit_learn(data, window):
    auc = ProgressiveAUC(window)
    for k, (score, label) in enumerate(data):
        auc.update([score], [label])
        seen = data[: k + 1]
        want = expected([s for s, _ in seen], [y for _, y in seen], window)
        assert auc.value == pytest.approx(want, abs=1e-12)
    assert auc.n_seen == len(data)


@pytest.mark.parametrize("kind", ["spread", "ties", "constant", "drifting", "sorted"])
def test_long_streams(kind):
    rng = np.random.default_rng(4)
    n, window = 8_000, 1_500
    y = rng.random(n) < 0.2
    scores = {
        "spread": rng.normal(size=n) + y,
        "ties": np.round(rng.normal(size=n) + y, 1),
        "constant": np.zeros(n),
        "drifting": np.cumsum(rng.normal(size=n)),
        "sorted": np.arange(n, dtype=float),
    }[kind]
    auc = ProgressiveAUC(window)
    begin = 0
    for size in rng.integers(1, 1000, size=200).tolist():
        stop = min(n, begin + size)
        auc.update(scores[begin:stop], y[begin:stop])
        want = expected(scores[:stop], y[:stop], window)
        assert auc.value == pytest.approx(want, abs=1e-12)
        begin = stop
        if begin == n:
            break
    assert begin == n


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=60),
       st.integers(1, 20), st.integers(0, 60))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_a_saved_window_goes_on_exactly(data, window, cut):
    scores = [float(s) for s, _ in data]
    labels = [y for _, y in data]
    whole, first = ProgressiveAUC(window), ProgressiveAUC(window)
    whole.update(scores, labels)
    first.update(scores[:cut], labels[:cut])
    second = ProgressiveAUC(window)
    second.restore(first.state())
    second.update(scores[cut:], labels[cut:])
    assert second.value == whole.value
    assert second.n_seen == whole.n_seen
    assert second.state()["scores"].tolist() == whole.state()["scores"].tolist()


def test_one_class_has_no_value():
    auc = ProgressiveAUC(3)
    assert auc.value is None
    auc.update([1.0, 2.0, 3.0], [True, True, True])
    assert auc.value is None
    assert (auc.n_positive, auc.n_negative) == (3, 0)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([np.nan], [1], "diverged"),
        ([1.0], [2], "True and False"),
        ([1.0, 2.0], [1], "one length"),
    ],
)
def test_bad_updates(scores, labels, message):
    with pytest.raises(ValueError, match=message):
        ProgressiveAUC(3).update(scores, labels)
    with pytest.raises(ValueError, match="at least 1"):
        ProgressiveAUC(0)
