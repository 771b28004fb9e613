# SPDX-License-Identifier: BSD-3-Clause
"""Passive-aggressive steps against a literal loop."""

import numpy as np
import pytest

from pairlearn import Constant, FifoBuffer, PreviousExample, ReservoirBuffer, Uniform
from pairlearn.pairings import ClassReservoirs
from pairlearn.solvers.descent.passive_aggressive import PassiveAggressive


@pytest.mark.parametrize(
    "pairing", [ClassReservoirs(4, 6, weighting="oam"), ReservoirBuffer(5), FifoBuffer(3)], ids=repr
)
def test_step_by_step(pairing):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), np.where(rng.random(50) < 0.4, 1.0, -1.0)
    found = PassiveAggressive(pairing, Constant(0.05), averaging=Uniform()).solve(
        X, y, n_passes=2, rng=1
    )
    plan = pairing.offline(50, np.random.default_rng(1), y).draw(100)
    w, iterates = np.zeros(3), []
    for t in range(100):
        i, cap = plan.left[t], 0.05 / 2 * plan.scale[t]
        for j in plan.right[plan.offsets[t] : plan.offsets[t + 1]]:
            D = y[i] * (X[i] - X[j])
            loss = max(0.0, 1.0 - w @ D)
            if y[i] != y[j] and loss > 0:
                w = w + min(cap, loss / (D @ D)) * D
        iterates.append(w)
    np.testing.assert_allclose(found.w, w, rtol=1e-12)
    np.testing.assert_allclose(found.average, np.mean(iterates, axis=0), rtol=1e-12)


def test_needs_a_buffer():
    for pairing in (PreviousExample(), FifoBuffer(1)):
        with pytest.raises(ValueError, match="needs a buffer"):
            PassiveAggressive(pairing)
    with pytest.raises(ValueError, match="zero rows"):
        PassiveAggressive(ClassReservoirs(zero_filled=True))
