# SPDX-License-Identifier: BSD-3-Clause
"""AUC of many models on the device."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.table1_on_device.auc import auc_of_many

from pairlearn.metrics import roc_auc


def test_it_is_the_auc_of_each_row_ties_included(rng):
    scores = rng.integers(6, size=(4, 90)).astype(np.float64)
    y = np.where(rng.random(90) < 0.3, 1.0, -1.0)
    found = auc_of_many(torch.from_numpy(scores), torch.from_numpy(y > 0))
    assert np.allclose(found.numpy(), [roc_auc(y, row) for row in scores], atol=1e-15)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_that_diverged_ranks_nothing(value):
    scores = torch.tensor([[1.0, 0.0], [value, 0.0]])
    assert auc_of_many(scores, torch.tensor([True, False])).tolist() == [1.0, 0.0]


def test_one_class_alone_is_refused():
    with pytest.raises(ValueError, match="all 3 examples have one"):
        auc_of_many(torch.zeros((1, 3)), torch.tensor([True, True, True]))
