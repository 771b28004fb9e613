# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import pairlearn
from pairlearn.data import Dataset, load
from pairlearn.experiments import HONEST, PAPER, EstimatorMethod, Fitted, Method, compare
from pairlearn.experiments.comparison.runner import ComparisonError
from pairlearn.experiments.comparison.store import Store, StoreError
from pairlearn.experiments.methods.base import Waypoint

SVC = EstimatorMethod(name="svc", path="sklearn.svm.LinearSVC", grid={"C": [0.01, 1.0]})
SGD = EstimatorMethod(
    name="sgd", path="sklearn.linear_model.SGDClassifier", grid={"alpha": [1e-4, 1e-2]}
)


@pytest.fixture(scope="module")
def cancer():
    return load("breast_cancer")


def toy(n=100, name="toy"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    return Dataset(X, y, name, "", (-1.0, 1.0), "test", f"{name}-{n}".ljust(64, "0"))


class Scores:
    def __init__(self, w):
        self.w = w

    def decision_function(self, X):
        return X @ self.w


@dataclass(frozen=True, kw_only=True)
class MeanDifference(Method):
    """Scores by the difference of the class means, plus noise from its own random numbers."""

    noise: float = 0.1

    def tune(self, X, y, rng):
        return {"shift": float(rng.normal()), "n": len(y)}

    def fit(self, X, y, params, rng):
        w = X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)
        w = w + self.noise * rng.normal(size=len(w))
        return Fitted(
            model=Scores(w),
            n_gradients=len(y),
            state_bytes=w.nbytes,
            waypoints=(Waypoint(Scores(-w), 0.5, 7),),
        )


@dataclass(frozen=True, kw_only=True)
class TunedOnce(MeanDifference):
    tuned_once = True
    max_tuning_examples = 30


@dataclass(frozen=True, kw_only=True)
class Fails(Method):
    def fit(self, X, y, params, rng):
        raise RuntimeError("on\npurpose")


@dataclass(frozen=True, kw_only=True)
class Warns(MeanDifference):
    def fit(self, X, y, params, rng):
        warnings.warn("it did not converge", UserWarning, stacklevel=1)
        return super().fit(X, y, params, rng)


def numbers(comparison):
    return [
        (r.dataset, r.split, r.method, r.auc, tuple(sorted(r.params.items())))
        for r in comparison.results
    ]


def test_cells_are_measured_and_ordered(tmp_path):
    methods = [MeanDifference(name="a"), MeanDifference(name="b")]
    seen = []
    done = compare(
        [toy(), toy(name="other")],
        methods,
        store=tmp_path / "s.jsonl",
        n_splits=2,
        progress=lambda *step: seen.append(step),
    )
    assert [(r.dataset, r.split, r.method) for r in done.results] == [
        (dataset, split, method)
        for dataset in ("toy", "other")
        for split in (0, 1)
        for method in ("a", "b")
    ]
    first = done.results[0]
    assert (first.n_train, first.n_test, first.n_gradients, first.state_bytes) == (80, 20, 80, 24)
    assert first.checkpoints[0][:2] == [0.5, 7]
    assert first.checkpoints[0][2] == pytest.approx(1 - first.auc)
    assert first.cpu_seconds >= 0
    assert [step[:2] for step in seen] == [(k, 8) for k in range(9)]


@pytest.mark.thorough
def test_same_numbers_with_one_and_two_workers(tmp_path, cancer):
    one = compare([cancer], [SVC, SGD], store=tmp_path / "1.jsonl", n_splits=3, workers=1)
    two = compare([cancer], [SVC, SGD], store=tmp_path / "2.jsonl", n_splits=3, workers=2)
    assert numbers(one) == numbers(two)
    other = compare([cancer], [SVC, SGD], store=tmp_path / "3.jsonl", n_splits=3, seed=1)
    assert numbers(one) != numbers(other)


def test_a_method_does_not_change_the_numbers_of_another(tmp_path):
    a, b = MeanDifference(name="a"), MeanDifference(name="b")
    alone = compare([toy()], [b], store=tmp_path / "1.jsonl", n_splits=2)
    both = compare([toy()], [a, b], store=tmp_path / "2.jsonl", n_splits=2)
    assert numbers(alone) == [row for row in numbers(both) if row[2] == "b"]


def test_second_run_computes_only_what_is_missing(tmp_path):
    store = tmp_path / "s.jsonl"
    a, b = MeanDifference(name="a"), MeanDifference(name="b")
    first = compare([toy()], [a], store=store, n_splits=2)
    assert first.n_computed == 2
    more = compare([toy()], [a, b], store=store, n_splits=3)
    assert more.n_computed == 4
    again = compare([toy()], [a, b], store=store, n_splits=3)
    assert again.n_computed == 0
    assert numbers(again) == numbers(more)
    changed = compare([toy()], [MeanDifference(name="a", noise=0.2)], store=store, n_splits=2)
    assert changed.n_computed == 2
    assert compare([toy(120)], [a], store=store, n_splits=1).n_computed == 1
    kinds = [json.loads(line)["kind"] for line in store.read_text().splitlines()]
    assert kinds.count("run") == 5


SCRIPT = """
import sys
from pairlearn.data import load
from pairlearn.experiments import EstimatorMethod, compare
if __name__ == "__main__":
    forest = EstimatorMethod(name="forest", path="sklearn.ensemble.RandomForestClassifier")
    compare([load("breast_cancer")], [forest], store=sys.argv[1], n_splits=8, workers=2)
"""


def stored(path):
    return path.read_text().count('"kind": "result"') if path.exists() else 0


@pytest.mark.thorough
def test_a_killed_run_goes_on_where_it_stopped(tmp_path, cancer):
    store, script = tmp_path / "s.jsonl", tmp_path / "run.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(Path(pairlearn.__file__).parents[1])}
    process = subprocess.Popen([sys.executable, script, store], env=environment)
    deadline = time.monotonic() + 120
    while stored(store) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    before = stored(store)
    assert 2 <= before < 8
    forest = EstimatorMethod(name="forest", path="sklearn.ensemble.RandomForestClassifier")
    resumed = compare([cancer], [forest], store=store, n_splits=8)
    assert resumed.n_computed == 8 - before
    fresh = compare([cancer], [forest], store=tmp_path / "fresh.jsonl", n_splits=8)
    assert numbers(resumed) == numbers(fresh)


def test_a_failing_cell_stops_nothing_and_is_tried_again(tmp_path):
    store = tmp_path / "s.jsonl"
    methods = [Fails(name="bad"), MeanDifference(name="good")]
    done = compare([toy()], methods, store=store, n_splits=2)
    assert [r.method for r in done.results] == ["good", "good"]
    assert [f.message for f in done.failures] == ["RuntimeError: on purpose"] * 2
    again = compare([toy()], methods, store=store, n_splits=2)
    assert (again.n_computed, len(again.failures)) == (0, 2)


@pytest.mark.thorough
def test_a_worker_that_dies_is_named_and_nothing_done_is_lost(tmp_path, cancer):
    dies = EstimatorMethod(name="dies", path="os._exit", fixed={"status": 3})
    store = tmp_path / "s.jsonl"
    with pytest.raises(ComparisonError, match="fewer workers"):
        compare([cancer], [dies], store=store, n_splits=2, workers=2)
    assert stored(store) == 0
    nb = EstimatorMethod(name="nb", path="sklearn.naive_bayes.GaussianNB")
    assert compare([cancer], [nb], store=store, n_splits=1).n_computed == 1


def test_warnings_are_kept_and_not_swallowed(tmp_path):
    done = compare([toy()], [Warns(name="w")], store=tmp_path / "s.jsonl", n_splits=1)
    assert done.results[0].warnings == ["it did not converge"]


def test_parameters_chosen_once(tmp_path):
    store = tmp_path / "s.jsonl"
    method = TunedOnce(name="once")
    done = compare([toy()], [method], store=store, n_splits=3)
    assert len({r.params["shift"] for r in done.results}) == 1
    assert {r.params["n"] for r in done.results} == {30}
    more = compare([toy()], [method], store=store, n_splits=4)
    assert more.results[3].params == done.results[0].params
    each = compare([toy()], [MeanDifference(name="once")], store=store, n_splits=3)
    assert len({r.params["shift"] for r in each.results}) == 3


def test_the_papers_protocol_tunes_on_everything(tmp_path):
    done = compare(
        [toy()], [MeanDifference(name="a")], store=tmp_path / "s.jsonl", n_splits=2, protocol=PAPER
    )
    assert {r.params["n"] for r in done.results} == {100}
    assert len({r.params["shift"] for r in done.results}) == 1


def test_two_runs_do_not_share_a_store(tmp_path):
    with Store(tmp_path / "s.jsonl"), pytest.raises(StoreError, match="another run"):
        compare([toy()], [MeanDifference(name="a")], store=tmp_path / "s.jsonl")


@pytest.mark.parametrize(
    ("datasets", "methods", "message"),
    [
        ([], [MeanDifference(name="a")], "data sets"),
        ([toy()], [], "methods"),
        ([toy()], [MeanDifference(name="a"), SVC, MeanDifference(name="a")], "a comes twice"),
    ],
)
def test_what_cannot_be_compared(tmp_path, datasets, methods, message):
    with pytest.raises(ValueError, match=message):
        compare(datasets, methods, store=tmp_path / "s.jsonl")


@pytest.mark.parametrize(
    ("datasets", "methods", "protocol", "message"),
    [
        (["breast_cancer"], [SVC], HONEST, "each Dataset as an object, got 'breast_cancer'"),
        ([toy()], ["ours"], HONEST, r"got 'ours'; pass find_method\(name\), in a list"),
        ([toy()], SVC, HONEST, "each Method as an object, got EstimatorMethod"),
        ([toy()], [SVC], "paper", "got 'paper'; pass HONEST or PAPER"),
    ],
)
def test_parts_of_a_comparison_are_objects(tmp_path, datasets, methods, protocol, message):
    with pytest.raises(TypeError, match=message):
        compare(datasets, methods, store=tmp_path / "s", n_splits=1, protocol=protocol)


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

compiled = {{"outside": 0, "inside": 0}}
where = ["outside"]

class Count(event.Listener):
    def on_start(self, event): compiled[where[0]] += 1
    def on_end(self, event): pass

event.register("numba:compile", Count())
kind = type(find_method({method!r}))
warm_up = kind.warm_up
def outside(self, d):
    warm_up(self, d)
    where[0] = "inside"
kind.warm_up = outside
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
    # A linear model in closed form needs no machine code.
    assert found["outside"] > 0 or method == "linear"


# ------------------------------------------------------------------------------------- the store

RESULT = {"auc": 0.75, "params": {"c": 1.0}}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "s.jsonl"
    with Store(path) as store:
        store.put("result", "a", RESULT)
        store.put("tuning", "t", {"params": {"c": 1}})
        store.put("run", "r", {"command": "compare"})
    return path


def test_a_line_that_a_kill_cut_is_left_out(path):
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 3])
    with Store(path) as store:
        store.put("result", "b", RESULT)
    assert path.read_bytes()[: len(whole)] == whole
    with Store(path) as store:
        assert store.get("result", "a") == store.get("result", "b") == RESULT
        assert store.get("tuning", "t") == {"params": {"c": 1}}
        assert store.get("tuning", "a") is None


@pytest.mark.parametrize(
    "line", [b"something else\n", b"{}\n", b"[]\n", b"\xff\x00\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_store(path, line):
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(StoreError, match=r"not a store of results \(line 4\)"):
        Store(path)
    # The lock is free again.
    path.unlink()
    Store(path).__exit__()


def test_a_result_of_another_version(path):
    method = MeanDifference(name="a")
    compare([toy()], [method], store=path, n_splits=1)
    path.write_text(path.read_text().replace("n_test", "n_older"))
    with pytest.raises(StoreError, match="no result of this version"):
        compare([toy()], [method], store=path, n_splits=1)


def test_a_folder_in_the_place_of_the_store(tmp_path):
    with pytest.raises(StoreError):
        Store(tmp_path)
