# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from benchmarks.league_table import (
    Result,
    draw,
    read_folders,
    summary,
    tasks_of,
    thinned,
)

from pairlearn.data import DataError


def test_tasks_of_several_classes():
    X = np.arange(12.0).reshape(6, 2)
    tasks = list(tasks_of("t", X, np.array([1, 1, 2, 2, 3, 2])))
    assert [task.name for task in tasks] == ["t 3", "t half"]
    assert tasks[0].y.tolist() == [0, 0, 0, 0, 1, 0]
    assert tasks[1].y.tolist() == [1, 1, 0, 0, 0, 0]
    assert list(tasks_of("t", X, np.arange(6.0) % 1)) == []


def test_few_positives_are_trained_on():
    train, y = np.arange(10, 2000), (np.arange(3000) % 100 == 0).astype(int)
    found = thinned(train, y, 8, split=3)
    assert (y[found].sum(), len(found)) == (8, 8 + 1100)
    assert set(found) <= set(train)
    # All where there are fewer.
    np.testing.assert_array_equal(thinned(train[:300], y, 8, split=3), train[:300])


def test_wins_and_losses_are_counted(tmp_path):
    def result(task, method, split, auc):
        return Result(task, method, split, auc, auc, 0.5, 1.0)

    results = [
        result(f"task{t}", method, split, 0.8 + (method == "ours") * gap + 0.0001 * split)
        for t, gap in enumerate((0.05, 0.04, -0.02, 0.001))
        for method in ("ours", "logistic")
        for split in range(3)
    ]
    line = summary(results, "ours")[1].split()
    assert line[0] == "logistic"
    assert float(line[1]) == pytest.approx(np.mean([0.05, 0.04, -0.02, 0.001]), abs=1e-4)
    assert line[3:5] == ["2", "1"]
    pytest.importorskip("matplotlib")
    draw(results, "ours", "logistic", tmp_path / "f.svg")
    assert "svg" in (tmp_path / "f.svg").read_text()


def test_a_folder_without_data(tmp_path):
    with pytest.raises(DataError, match="CSV files need --label"):
        next(read_folders([tmp_path]))
