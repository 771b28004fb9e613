# SPDX-License-Identifier: BSD-3-Clause
"""The online learner drives every estimator that learns from streams, and resumes each exactly."""

from __future__ import annotations

import numpy as np
import pytest

from pairlearn import EntropyRegressor, MetricLearner, OnlineLearner, PairwiseRanker, open_reader
from pairlearn.streams import Schema


class StopHereError(Exception):
    pass


def stop_after(count):
    left = [count]

    def progress(learner, chunk):
        left[0] -= 1
        if left[0] < 0:
            raise StopHereError

    return progress


@pytest.fixture
def table(rng, tmp_path):
    X = rng.normal(size=(900, 3))
    grade = np.digitize(X[:, 0] + 0.3 * rng.normal(size=900), [-0.5, 0.5])
    query = rng.integers(0, 40, size=900)
    target = X @ [1.0, -2.0, 0.0] + rng.standard_t(2, size=900)
    rows = ["a,b,c,grade,query,target"]
    for x, g, q, t in zip(X.tolist(), grade, query, target.tolist(), strict=True):
        rows.append(",".join(map(repr, x)) + f",{g},{q},{t!r}")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


CASES = {
    "ranker": (PairwiseRanker, "grade", None),
    "ranker in queries": (PairwiseRanker, "grade", "query"),
    "entropy": (EntropyRegressor, "target", None),
    "metric": (lambda: MetricLearner(random_state=0), "grade", None),
    "metric diagonal": (
        lambda: MetricLearner(parameterization="diagonal", random_state=0),
        "grade",
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_resuming_is_exact(name, table, tmp_path):
    make, label, qid = CASES[name]
    schema = Schema(label=label, qid=qid, features=("a", "b", "c"))

    def read():
        return open_reader(table, schema, chunk_rows=100)

    whole = OnlineLearner(make()).fit_stream(read(), n_passes=2)
    assert whole.auc is None
    for _ in range(50):
        learner = OnlineLearner(make())
        try:
            learner.fit_stream(read(), checkpoint=tmp_path / "c", every=1, n_passes=2,
                               progress=stop_after(1))  # fmt: skip
            break
        except StopHereError:
            continue
    assert learner.n_seen == whole.n_seen == 1800
    for one in (whole, learner):
        one.save(tmp_path / f"{one is whole}")
    assert (tmp_path / "True").read_bytes() == (tmp_path / "False").read_bytes()


def test_restarts_need_coefficients_to_start_from():
    with pytest.raises(ValueError, match="PairwiseRanker does not; leave forget at None"):
        OnlineLearner(PairwiseRanker(), forget=100)
