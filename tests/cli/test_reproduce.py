# SPDX-License-Identifier: BSD-3-Clause
import pytest
from click.testing import CliRunner

from pairlearn.cli.reproduce import command
from pairlearn.data import DataUnavailableError, load
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
        (("table1", "--methods", "nothing"), 1, "no method 'nothing' to choose; choose from ours"),
        (("table1", "--methods", "ours,logistic"), 1, "no method 'logistic' to choose"),
        (("table1", "--methods", "ours,"), 2, "must be names between commas, got 'ours,'"),
        (("table1", "table-dp-time", "--methods", "ours"), 1, "none of them was asked for"),
        (("private-mechanisms", "--methods", "ours"), 1, "no method 'ours' to choose"),
        (("fig-hinge", "--methods", "spauc"), 1, "no method 'spauc' to choose"),
        (("fig-loglink", "--methods", "ours"), 1, "no method 'ours' to choose; leave the option"),
        (("private-add-remove", "--data", "nothing"), 1, "choose from diabetes, german"),
        (("table-dp-german", "--data", "diabetes"), 1, "no data set 'diabetes' to choose"),
        (("fig-sampling", "--data", "german"), 1, "no data set 'german' to choose; leave the"),
        (("fig-sampling", "--splits", "3"), 1, "no splits to count"),
        (("table1", "--data", "nothing"), 1, "no data set is called 'nothing'"),
    ],
)
def test_mistakes(arguments, status, message):
    answer = run(*arguments)
    assert answer.exit_code == status
    assert message in answer.output


def test_a_failed_cell_of_fig_loglink_is_told(monkeypatch):
    """The exit status alone would not say what went wrong."""

    def fails(self, X, y, rng):
        raise ValueError("the pot is empty")

    monkeypatch.setattr("pairlearn.experiments.paper.figures._risk_curve", lambda *_: [(1.0, 0.2)])
    monkeypatch.setattr("pairlearn.experiments.methods.pairwise.RecipeMethod.tune", fails)
    answer = run("fig-loglink", "--quick", "--data", "breast_cancer", "--splits", "1")
    assert answer.exit_code == 1
    assert answer.output.count("the pot is empty") == 2


def test_names_that_come_twice_are_taken_once(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "pairlearn.experiments.paper.targets.reproduce",
        lambda names, given, shelf: seen.append(given) or [],
    )
    run("table1", "--data", "digits,digits", "--methods", "ours, ours")
    assert seen[0].datasets == ("digits",)
    assert seen[0].methods == ("ours",)


@pytest.mark.thorough
def test_one_split_has_no_deviation():
    answer = run("table1", "--data", "breast_cancer", "--methods", "spauc", "--splits", "1")
    assert answer.exit_code == 0, answer.output
    assert "nan" not in answer.output


def test_nothing_at_hand_is_an_error(monkeypatch):
    def nothing(name):
        raise DataUnavailableError(f"{name} cannot be had")

    monkeypatch.setattr(outcome_module, "load", nothing)
    answer = run("table1", "fig-hinge")
    assert answer.exit_code == 1
    assert answer.output.count("missing: mnist: mnist cannot be had") == 1
    assert "nothing was run" in answer.output


@pytest.mark.thorough
def test_a_quick_look_without_the_paper_s_data(monkeypatch):
    """The sets of scikit-learn stand in, and the program says so before it computes."""

    def embedded_only(name):
        if name not in ("breast_cancer", "digits", "digits_8"):
            raise DataUnavailableError(f"{name} cannot be had")
        return load(name)

    monkeypatch.setattr(outcome_module, "load", embedded_only)
    answer = run("table1", "--quick", "--methods", "ours,spauc", "--splits", "1")
    assert answer.exit_code == 0, answer.output
    order = [
        "missing: mnist: mnist cannot be had",
        "none of the paper's data sets is here; taken: breast_cancer, digits, digits_8",
        "breast_cancer: ours 0.9",
        "digits_8: ours 0.",
        "table1: Test AUC",
        "None of the paper's six data sets is on this machine",
    ]
    places = [" ".join(answer.output.split()).index(text) for text in order]
    assert places == sorted(places)
    # Without --quick the table is the paper's or nothing.
    answer = run("table1")
    assert answer.exit_code == 1
    assert "--quick runs on data that ship with scikit-learn" in answer.output
