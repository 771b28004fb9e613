# SPDX-License-Identifier: BSD-3-Clause
import json

import pytest
from click.testing import CliRunner

from pairlearn.cli.compare import command as compare
from pairlearn.cli.program import program
from pairlearn.cli.running import run as run_program
from pairlearn.data.__main__ import main as data

NB = "nb=sklearn.naive_bayes.GaussianNB"
RIDGE = 'ridge=sklearn.linear_model.RidgeClassifier {"alpha": [0.1, 10]}'


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PAIRLEARN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pairlearn", "compare", "breast_cancer"])


def run(command, *arguments):
    return CliRunner().invoke(command, arguments)


def test_data_sets_are_listed_and_fetched(capsys, monkeypatch, tmp_path):
    assert data(["list"]) == 0
    out = capsys.readouterr().out
    assert "german.numer (german)" in out
    assert "to be fetched" in out
    assert data(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["where"] == "scikit-learn"
    assert data(["fetch", "digits"]) == 0
    assert "1797 examples" in capsys.readouterr().out
    assert data(["fetch", "nothing"]) == 1
    assert "no data set is called 'nothing'" in capsys.readouterr().err
    monkeypatch.setenv("PAIRLEARN_DATA", str(tmp_path / "absent"))
    assert data(["list"]) == 1
    assert "not a folder" in capsys.readouterr().err


@pytest.mark.thorough
def test_compare_prints_stores_reports_and_goes_on(tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ["breast_cancer", "--estimator", NB, "--estimator", RIDGE, "--splits", "2"]
    answer = run(compare, *arguments, "--report", "page")
    assert answer.exit_code == 0, answer.output
    assert "4 cells computed, 4 in all" in answer.output
    assert "less nb" in answer.output
    text = (tmp_path / "page" / "index.html").read_text()
    assert "pairlearn compare breast_cancer" in text
    again = run(compare, *arguments, "--json")
    found = json.loads(again.output)
    assert [row["method"] for row in found["auc"]] == ["nb", "ridge"]
    assert found["differences"][0]["baseline"] == "nb"
    third = run(compare, *arguments)
    assert "0 cells computed, 4 in all" in third.output


def test_one_split_gives_valid_json():
    answer = run(compare, "breast_cancer", "--estimator", NB, "--splits", "1", "--json")
    assert json.loads(answer.output)["auc"][0]["auc"]["sd"] is None


def test_methods_are_listed():
    answer = run(compare, "breast_cancer", "--methods", "list")
    assert "gradient-boosting" in answer.output.split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", "--methods", "logistic"), "no data set"),
        (("breast_cancer", "--methods", "nothing"), "no method is called 'nothing'"),
        (("breast_cancer", "--estimator", "nothing.X"), "cannot import"),
        (("breast_cancer", "--methods", "sgd,sgd"), "comes twice"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert run_program(program, ["compare", *arguments]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_splits_are_counted_from_one():
    answer = run(compare, "breast_cancer", "--methods", "sgd", "--splits", "0")
    assert answer.exit_code == 2
    assert "--splits" in answer.output


def test_a_failed_cell_shows_in_the_exit_status():
    bad = 'bad=sklearn.linear_model.LogisticRegression {"C": -1}'
    answer = run(compare, "breast_cancer", "--estimator", bad, "--splits", "1")
    assert answer.exit_code == 1
    assert "failed: breast_cancer split 0 bad: InvalidParameterError" in answer.output


def test_options_of_tables_are_refused_for_data_sets_by_name():
    for options in (("--label", "y"), ("--exclude", "a"), ("--set", "reading.header=false")):
        answer = run(compare, "breast_cancer", "--methods", "linear", "--splits", "1", *options)
        assert answer.exit_code == 2
        assert "options about columns are for tables of your own" in answer.output
