# SPDX-License-Identifier: BSD-3-Clause
"""Record what other libraries say of simulated times: ``make record-survival``.

That is ``python tests/metrics/record_concordance.py``, with the extra `survival`. It writes
`recorded_concordance.json`: the concordance indices of scikit-survival and lifelines, and the
coefficients of FastSurvivalSVM, for the samples that `sample` draws. `test_concordance_recorded.py`
holds ours against them, where neither library needs to be installed.
"""

import json
import warnings
from pathlib import Path

import numpy as np

RECORDED = Path(__file__).with_name("recorded_concordance.json")
CASES = [
    {"seed": seed, "n": n, "ties": ties}
    for seed, (n, ties) in enumerate([(25, 0), (60, 0), (60, 1), (200, 0), (200, 1), (500, 1)])
]
#: Factors of the loss of FastSurvivalSVM.
ALPHAS = (0.001, 0.1)


def sample(seed, n, ties):
    """Return features, events, times and scores; times and scores with ties or without."""
    rng = np.random.default_rng(1000 + seed)
    X = rng.normal(size=(n, 3))
    log_hazard = X @ [1.0, -0.5, 0.2]
    died, left = rng.exponential(np.exp(-log_hazard)), rng.exponential(1.5, size=n)
    event, time = died <= left, np.minimum(died, left) + 0.01
    scores = log_hazard + rng.normal(size=n)
    if ties:
        # scores of a few values, and events and censored examples at common times
        time, scores = np.ceil(10.0 * time) / 10.0, np.round(2.0 * scores) / 2.0
    return X, event, time, scores


def apart(event, time):
    """Return times at which events and censored examples never meet, in the same order."""
    return time + np.where(event, 0.0, 1e-4)


def others(case):
    """Return what the other libraries say of a case."""
    from lifelines.utils import concordance_index
    from sksurv.metrics import concordance_index_censored, concordance_index_ipcw
    from sksurv.svm import FastSurvivalSVM
    from sksurv.util import Surv

    X, event, time, scores = sample(**case)
    tau = float(np.quantile(time, 0.7))
    clear = Surv.from_arrays(event, apart(event, time))
    found = {
        "harrell_sksurv": float(concordance_index_censored(event, time, scores)[0]),
        "harrell_lifelines": float(concordance_index(time, -scores, event)),
        "tau": tau,
        "uno_sksurv": float(concordance_index_ipcw(clear, clear, scores, tau=tau)[0]),
    }
    if not case["ties"] and case["n"] <= 200:
        for alpha in ALPHAS:
            model = FastSurvivalSVM(alpha, rank_ratio=1.0, max_iter=1000, tol=1e-14, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, Surv.from_arrays(event, time))
            found[f"svm_{alpha}"] = model.coef_.tolist()
    return found


if __name__ == "__main__":
    import lifelines
    import sksurv

    record = {
        "scikit-survival": sksurv.__version__,
        "lifelines": lifelines.__version__,
        "cases": [{**case, **others(case)} for case in CASES],
    }
    RECORDED.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
