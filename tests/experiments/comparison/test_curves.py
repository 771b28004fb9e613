# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve, roc_curve

from pairlearn.experiments.comparison.curves import (
    BINS,
    PLACES,
    bands,
    coefficients,
    curves_on,
    mean_coefficients,
)
from pairlearn.experiments.comparison.runner import HONEST, Comparison
from pairlearn.experiments.comparison.store import Result, Store


def test_curves_are_those_of_scikit_learn(rng):
    y = np.where(rng.random(300) < 0.3, 1.0, -1.0)
    scores = np.round(y + 1.5 * rng.normal(size=300), 1)  # with ties
    found = curves_on(y, scores)
    alarms, recall, _ = roc_curve(y, scores, drop_intermediate=False)
    for rate, value in zip(PLACES, found["roc"], strict=True):
        # between two corners a curve with ties is a line; at a corner, its top
        at = recall[np.isclose(alarms, rate)]
        expected = at.max() if len(at) else np.interp(rate, alarms, recall)
        assert value == pytest.approx(expected, abs=1e-6)
    precision, reached, _ = precision_recall_curve(y, scores)
    for wanted, value in zip(PLACES, found["precision"], strict=True):
        enough = reached[:-1] >= wanted - 1e-12
        # the highest threshold that reaches the recall
        assert value == pytest.approx(precision[:-1][enough][-1], abs=1e-6)


def test_calibration_counts_bins():
    y = np.array([-1.0, 1.0, 1.0, -1.0, 1.0])
    found = curves_on(y, y, np.array([0.0, 0.05, 1.0, 0.55, 0.5]))
    assert len(found["counts"]) == BINS
    assert (found["counts"][0], found["counts"][5], found["counts"][9]) == (2, 2, 1)
    assert (found["observed"][0], found["predicted"][0]) == (0.5, 0.025)
    assert found["observed"][9] == 1.0
    assert "counts" not in curves_on(y, y)


def test_coefficients_of_what_has_them():
    class Linear:
        coef_ = np.array([[1.0, -2.0]])

    class Wide:
        coef_ = np.zeros(1000)

    assert coefficients(Linear()) == {"coefficients": [1.0, -2.0]}
    assert coefficients(Wide()) == {}
    assert coefficients(object()) == {}


def result(split, curves):
    return Result("d", split, "m", 0.8, 0.1, 0.1, 0.0, 80, 20, curves=curves)


def test_bands_and_the_store(tmp_path):
    rows = [
        result(k, {"roc": [0.5 + 0.1 * k] * 51, "precision": [1.0] * 51, "counts": [4.0, 0.0],
                   "predicted": [0.2, 0.0], "observed": [0.25 * k, 0.0], "coefficients": [k, 1.0]})
        for k in range(3)
    ]  # fmt: skip
    with Store(tmp_path / "s.jsonl") as store:
        for row in rows:
            store.put(str(row.split), row)
        assert list(store.get("012").values()) == rows
    done = Comparison([*rows, result(3, {})], [], ("d",), ("m",), 4, 0, HONEST, 4)
    [band] = bands(done, "roc")
    assert band.mean[7] == pytest.approx(0.6)
    assert band.sd[7] == pytest.approx(np.std([0.5, 0.6, 0.7]))
    [band] = bands(done, "calibration")
    assert band.x.tolist() == pytest.approx([0.2])
    assert band.mean.tolist() == pytest.approx([0.25])
    likely = (0.25 * 4 + 1) / 6
    assert band.sd.tolist() == pytest.approx([np.sqrt(likely * (1 - likely) / 6)])
    mean, sd = mean_coefficients(done, "d", "m")
    assert mean.tolist() == [1.0, 1.0]
    assert sd.tolist() == pytest.approx([np.std([0, 1, 2]), 0.0])


@pytest.mark.parametrize("other", [{"coefficients": [1.0, 2.0, 3.0]}, {"roc": [0.5] * 51}])
def test_splits_with_other_models_have_no_mean_coefficients(other):
    rows = [result(0, {"coefficients": [1.0, 2.0]}), result(1, other)]
    done = Comparison(rows, [], ("d",), ("m",), 2, 0, HONEST, 2)
    mean, sd = mean_coefficients(done, "d", "m")
    assert len(mean) == len(sd) == 0


@pytest.mark.parametrize("method", ["ours", "linear"])
@pytest.mark.thorough
def test_nothing_is_compiled_inside_the_clock(method, tmp_path):
    """With an empty cache of machine code, kernels are compiled, and none of them while timed."""
    code = f"""
import json, sys
import numpy as np
from numba.core import event
from pairlearn.data import Dataset
from pairlearn.experiments import compare, find_method
from pairlearn.experiments.comparison import cell

compiled = {{"outside": 0, "inside": 0}}
where = ["outside"]

class Count(event.Listener):
    def on_start(self, event): compiled[where[0]] += 1
    def on_end(self, event): pass

event.register("numba:compile", Count())
enter, leave = cell.Meter.__enter__, cell.Meter.__exit__
def inside(self):
    where[0] = "inside"
    return enter(self)
def outside(self, *error):
    where[0] = "outside"
    return leave(self, *error)
cell.Meter.__enter__, cell.Meter.__exit__ = inside, outside
rng = np.random.default_rng(0)
X = rng.normal(size=(2600, 30))
y = np.where(X[:, 0] + rng.normal(size=2600) > 0, 1.0, -1.0)
data = Dataset(X, y, "d", "", (-1.0, 1.0), "here", "0" * 64)
compare([data], [find_method({method!r})], store="s.jsonl", n_splits=2)
print(json.dumps(compiled))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          cwd=tmp_path, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["inside"] == 0
    assert found["outside"] > 0
