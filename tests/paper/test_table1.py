# SPDX-License-Identifier: BSD-3-Clause
"""The paper's table 1 on its own data, reduced: small sets, few splits."""

import pytest

from pairlearn.data import load
from pairlearn.experiments import compare, find_method
from pairlearn.experiments.comparison.tables import auc_rows, paper_rows


@pytest.mark.slow
def test_reduced_table_1(data_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLEARN_DATA", str(data_folder))
    datasets = [load(name, download_missing=False) for name in ("diabetes", "german", "letter")]
    names = ("ours", "sgd-pair", "spauc", "olp", "oam", "olp-rs1", "oam-rs1")
    done = compare(
        datasets,
        [find_method(name) for name in names],
        store=tmp_path / "results.sqlite",
        n_splits=8,
    )
    assert not done.failures
    for row in paper_rows(done):
        if row.row.endswith("rs1"):
            continue
        # The mean of 8 splits lies within one published deviation and its own error of 3 sd/sqrt(8)
        # (false alarms below 1 % for all cells together), or above.
        allowed = row.published.sd + 3 * row.published.sd / 8**0.5
        assert row.difference > -allowed, (row.row, row.column, row.mean)
    means = {(row.method, row.dataset): row.auc.mean for row in auc_rows(done)}
    for data in datasets:
        for poor in ("olp-rs1", "oam-rs1"):
            assert means[poor, data.name] < means["ours", data.name] - 0.04
