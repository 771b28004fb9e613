# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from benchmarks.league import OnePass, main, shipped, streams
from benchmarks.league_table import auc_line, methods, play


@pytest.mark.thorough
def test_sets_that_ship():
    task = next(task for task in shipped() if task.name == "breast_cancer")
    which = {name: methods()[name] for name in ("ours", "logistic")}
    [(played, results)] = list(play(iter([task]), which, n_splits=2))
    assert played is task
    assert len(results) == 4
    assert all(0.97 < result.auc <= 1.0 for result in results)
    assert "breast_cancer" in auc_line(task, results, ["ours", "logistic"])


class Recorder:
    def __init__(self):
        self.seen = []

    def partial_fit(self, X, y, classes):
        assert classes == [0, 1]
        self.seen.append(len(y))


def test_a_stream_is_seen_once_in_chunks():
    model = OnePass(Recorder(), chunk=4)
    assert model.fit(np.zeros((10, 2)), np.zeros(10)) is model
    assert model.model.seen == [4, 4, 2]
    assert {"ours", "never forgets", "opposite", "previous", "sgd", "fit"} <= set(streams())


@pytest.mark.thorough
def test_the_program_prints_a_line_for_each_task(capsys, monkeypatch):
    monkeypatch.delenv("PAIRLEARN_DATA", raising=False)
    assert main(["--splits", "1", "--only", "wine", "--methods", "ours,logistic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["test", "wine", "wine"]
    assert lines[-1].startswith("best of 1")
