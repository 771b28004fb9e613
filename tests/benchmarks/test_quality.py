# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of quality: what their summaries say, and what they refuse."""

import numpy as np
import pytest

from benchmarks import many_classes, top_of_list
from pairlearn.data import DataError


def test_the_summary_counts_wins_losses_and_cpu_time():
    rivals = {"logistic": (0.5, 0.6, 0.1), "logistic cv": (0.5, 0.6, 1.0)}
    results = [
        ("few", 40, {**rivals, "push": (0.4, 0.6, 4.0)}),
        ("many", 60, {**rivals, "push": (0.7, 0.6, 2.0)}),
    ]
    lines = top_of_list.summary(results)
    assert "average precision, all sets (2), push: over logistic +0.0500 (1 : 1)" in lines
    assert (
        "average precision, more than 50 positives (1), push: over logistic +0.2000 (1 : 0)"
        in lines
    )
    assert "CPU of push: 3.00 of logistic cv, at worst 4.0 (few)" in lines


def test_names_that_mean_nothing_are_refused(capsys, tmp_path):
    with pytest.raises(SystemExit):
        top_of_list.main(["--methods", "pull"])
    assert "--methods must be among raw, logistic" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        many_classes.main(["--sets", "wine"])
    assert "--sets must be among vehicle_scale" in capsys.readouterr().err
    with pytest.raises(DataError, match="vehicle_scale is neither in"):
        next(many_classes.read_sets(tmp_path, ["vehicle_scale"]))


def test_a_split_of_many_classes_has_a_row_for_each():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + 3.0 * np.eye(3)[y]
    rows = many_classes.run_split(X, y, 0)
    assert rows.shape == (2, 4)
    assert (rows[:, :2] > 0.8).all()
