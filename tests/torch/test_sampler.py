# SPDX-License-Identifier: BSD-3-Clause
"""Batches with a share of positives."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from pairlearn.torch import BalancedSampler

LABELS = np.array([1] * 7 + [0] * 40)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_every_batch_has_its_share_and_decks_are_dealt_evenly(share):
    sampler = BalancedSampler(LABELS, 10, share=share, seed=1)
    assert len(sampler) == 5
    seen = Counter()
    for _ in range(14):
        batches = list(sampler)
        assert len(batches) == 5
        for batch in batches:
            assert len(batch) == 10
            assert LABELS[batch].sum() == max(round(share * 10), 1)
            seen.update(batch)
    assert sampler.epoch == 14
    for kind in (0, 1):
        counts = [seen[i] for i in np.flatnonzero(kind == LABELS)]
        assert max(counts) - min(counts) <= 1


def test_epochs_differ_and_seeds_decide():
    a, b, c = (BalancedSampler(LABELS, 10, seed=s) for s in (0, 0, 1))
    first = list(a)
    assert first == list(b) != list(c)
    assert list(a) != first


def test_it_goes_on_in_the_middle_of_an_epoch():
    one, other = BalancedSampler(LABELS, 10), BalancedSampler(LABELS, 10, seed=5)
    running = iter(one)
    for _ in range(3):
        next(running)
    state = one.state_dict()
    rest = [*running, *one]
    other.load_state_dict(state)
    assert [*other, *other] == rest
    assert (other.epoch, other.batch) == (one.epoch, one.batch) == (2, 0)


def test_it_feeds_a_data_loader():
    X = torch.arange(47.0)
    data = torch.utils.data.TensorDataset(X, torch.tensor(LABELS))
    loader = torch.utils.data.DataLoader(data, batch_sampler=BalancedSampler(LABELS, 10))
    assert [int(y.sum()) for _, y in loader] == [5] * 5


def test_labels_in_any_container():
    labels = np.array([0, 1, 1, 0, 0, 0], dtype=np.uint16)
    expected = list(BalancedSampler(labels.tolist(), 2))
    backwards = labels[::-1].copy()[::-1]
    for same in (labels, backwards, pd.Series(labels, index=range(6, 12)), labels == 1):
        assert list(BalancedSampler(same, 2)) == expected
    with pytest.raises(ValueError, match=r"got an array of <U5; pass labels == c"):
        BalancedSampler(labels.astype(str), 2)


def test_what_is_refused():
    with pytest.raises(ValueError, match="one class"):
        BalancedSampler([1, 1], 2)
    with pytest.raises(ValueError, match="batch_size must be at least 2"):
        BalancedSampler(LABELS, 1)
    with pytest.raises(ValueError, match="share must lie strictly between"):
        BalancedSampler(LABELS, 4, share=1.0)
    sampler = BalancedSampler(LABELS, 10)
    with pytest.raises(ValueError, match="make it with the same labels"):
        sampler.load_state_dict(BalancedSampler(LABELS[:-1], 10).state_dict())
