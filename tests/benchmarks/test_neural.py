# SPDX-License-Identifier: BSD-3-Clause
"""The table of networks beside LightGBM: runs that are kept, put together and compared."""

import json

import numpy as np
import pytest

from benchmarks import neural


@pytest.fixture
def small(monkeypatch, tmp_path, rng):
    """Two sets, and two methods that need no training."""
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    fits = []

    def fit(column):
        def method(X, y, device, shape):
            fits.append(column)
            return lambda rows: rows[:, column]

        return method

    monkeypatch.setattr(neural, "METHODS", {"networks": fit(0), "LightGBM": fit(1)})
    monkeypatch.setattr(neural, "load", lambda *_: (X, y))
    monkeypatch.setenv("PAIRLEARN_DATA", str(tmp_path))
    neural._examples.cache_clear()
    yield tmp_path, fits
    neural._examples.cache_clear()


def test_methods_that_ran_apart_make_one_table(small, capsys, monkeypatch):
    folder, fits = small
    shared = ["--splits", "3", "--only", "magic", "--only", "german"]
    for method in ("networks", "LightGBM"):
        path = folder / f"{method}.jsonl"
        neural.main([*shared, "--method", method, "--json", str(path)])
        assert "not run by both methods yet: 2 of 2 sets" in capsys.readouterr().out
    assert fits == [0] * 6 + [1] * 6
    both = folder / "both.jsonl"
    both.write_text("".join((folder / f"{m}.jsonl").read_text() for m in neural.METHODS))
    # Nothing is left to run, so that neither data nor packages are needed.
    monkeypatch.delenv("PAIRLEARN_DATA")
    neural.main([*shared, "--json", str(both)])
    told = capsys.readouterr().out
    assert len(fits) == 12
    results = [json.loads(line) for line in both.read_text().splitlines()]
    rival = [r["auc"] for r in results if r["set"] == "magic" and r["method"] == "LightGBM"]
    theirs = np.mean(rival)
    assert f"| magic | 60 x 3 | 1.0000 | {theirs:.4f} |" in told
    assert "3 splits; within 0.005 of LightGBM, or better: 2 of 2" in told


def test_other_splits_are_not_compared(small):
    folder, _ = small
    path = folder / "runs.jsonl"
    shared = ["--splits", "1", "--only", "german", "--json", str(path)]
    neural.main([*shared, "--method", "networks"])
    result = json.loads(path.read_text())
    other = {**result, "method": "LightGBM", "test": result["test"] + 1}
    path.write_text(json.dumps(result) + "\n" + json.dumps(other) + "\n")
    with pytest.raises(SystemExit, match="split 0 of german is not the same for both"):
        neural.main(shared)
