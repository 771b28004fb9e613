# SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path

import pytest
from benchmarks.league_table import Task

from benchmarks import private_networks


def test_a_row_has_the_best_fixed_setting_in_bold_and_the_best_of_the_grid():
    task = Task("one", [[0.0]], [0, 1])
    auc = {"ours, network": [0.7], "ours, default": [0.8], "Opacus 0": [0.75], "Opacus 1": [0.9]}
    found = private_networks.row(task, 1000, 2.0, auc)
    assert found == "| one | 0.500 | 1,000 | 2 | .700 | **.800** | .750 | .900 |"


def test_methods_and_sets():
    names = list(private_networks.methods())
    assert names[:3] == ["ours, network", "ours, noisy_sgd", "ours, default"]
    assert len(names) == 3 + len(private_networks.GRID)
    digits = private_networks.read(None, "digits rare")
    assert digits.X.shape == (1797, 64)
    assert 0.09 < digits.y.mean() < 0.11
    with pytest.raises(SystemExit, match="give --data"):
        private_networks.read(None, "diabetes")
    with pytest.raises(SystemExit, match="has no file"):
        private_networks.read(Path(__file__).parent, "diabetes")


@pytest.mark.filterwarnings("ignore:random_state makes the noise")
def test_linear_methods_run():
    pytest.importorskip("torch", reason="needs the extra torch: make test-torch")
    task = private_networks.read(None, "digits rare")
    auc, seconds = private_networks.play(task, 300, 4.0, 1, ["ours, noisy_sgd", "ours, default"])
    assert all(values[0] > 0.6 for values in auc.values())
    assert all(values[0] >= 0.0 for values in seconds.values())
