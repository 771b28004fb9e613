# SPDX-License-Identifier: BSD-3-Clause
import pytest
from click.testing import CliRunner

from pairlearn.cli.reproduce import command
from pairlearn.data.errors import DataUnavailableError
from pairlearn.experiments.paper import outcome as outcome_module

pytest.importorskip("matplotlib", reason="figures need matplotlib")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PAIRLEARN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pairlearn", "reproduce", "table1", "--quick"])


def run(*arguments):
    return CliRunner().invoke(command, arguments)


@pytest.mark.thorough
def test_quick_on_a_shipped_set_writes_a_report(tmp_path):
    answer = run(
        "table1", "--quick", "--data", "breast_cancer", "--methods", "ours", "--splits", "1",
        "--report", "page",
    )  # fmt: skip
    assert answer.exit_code == 0, answer.output
    assert "report: page/index.html" in answer.output
    assert "table1: " in answer.output
    text = (tmp_path / "page" / "index.html").read_text()
    assert "pairlearn reproduce table1 --quick" in text
    assert "NeurIPS 2021" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("table2",), 2, "table2"),
        ((), 2, "NAME"),
        (("table1", "--protocol", "fast"), 2, "fast"),
        (("table1", "--splits", "0"), 2, "0"),
        (("table1", "--methods", "nothing"), 1, "no method is called 'nothing'"),
        (("table1", "--methods", "logistic"), 1, "none of them was asked for"),
        (("private-mechanisms", "--methods", "ours"), 1, "none of them was asked for"),
        (("private-add-remove", "--data", "nothing"), 1, "neither data set is available"),
        (("table1", "--data", "nothing"), 1, "no data set is called 'nothing'"),
    ],
)
def test_mistakes(arguments, status, message):
    answer = run(*arguments)
    assert answer.exit_code == status
    assert message in answer.output


def test_nothing_at_hand_is_an_error(monkeypatch):
    def nothing(name):
        raise DataUnavailableError(f"{name} cannot be had")

    monkeypatch.setattr(outcome_module, "load", nothing)
    answer = run("table1", "fig-hinge")
    assert answer.exit_code == 1
    assert answer.output.count("missing: mnist: mnist cannot be had") == 1
    assert "nothing was run" in answer.output
