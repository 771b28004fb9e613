# SPDX-License-Identifier: BSD-3-Clause
"""The concordance index and the survival ranker beside scikit-survival and lifelines.

Recorded values serve everywhere; where the libraries are installed they are asked again.
"""

import json

import numpy as np
import pytest

from pairlearn import ConcordanceIndex, Exact, SurvivalRanker
from pairlearn.metrics.concordance import comparable_pairs, survival_times

from .record_concordance import ALPHAS, CASES, RECORDED, apart, others, sample

CASES_AND_VALUES = json.loads(RECORDED.read_text(encoding="utf-8"))["cases"]


def agrees(case, values):
    X, event, time, scores = sample(**{name: case[name] for name in ("seed", "n", "ties")})
    y = np.column_stack((event, time))
    ours = ConcordanceIndex()(y, scores)
    assert ours == pytest.approx(values["harrell_sksurv"], abs=1e-14)
    assert ours == pytest.approx(values["harrell_lifelines"], abs=1e-14)
    clear = np.column_stack((event, apart(event, time)))
    uno = ConcordanceIndex(ipcw=True, tau=values["tau"])
    assert uno(clear, scores) == pytest.approx(values["uno_sksurv"], abs=1e-13)
    for alpha in ALPHAS:
        if f"svm_{alpha}" not in values:
            continue
        # (alpha / 2) sum + |w|^2 / 2 is (alpha D / 2) (mean + |w|^2 / (alpha D))
        pairs = comparable_pairs(survival_times(y))
        n_pairs = sum(np.count_nonzero(time > t) for t in time[pairs.event])
        solver = Exact(ridge=1.0 / (alpha * n_pairs))
        found = SurvivalRanker(solver=solver, scaling=None).fit(X, y).coef_
        # their coefficients are of a score that grows with the time
        theirs = -np.array(values[f"svm_{alpha}"])
        assert found == pytest.approx(theirs, abs=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("case", CASES_AND_VALUES, ids=lambda case: f"{case['n']}-{case['seed']}")
def test_recorded_values_of_other_libraries(case):
    agrees(case, case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['n']}-{case['seed']}")
def test_other_libraries_asked_now(case):
    for name in ("sksurv", "lifelines"):
        pytest.importorskip(name, reason=f"{name} is not installed (make test-survival)")
    agrees(case, others(case))
