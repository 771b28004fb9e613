# SPDX-License-Identifier: BSD-3-Clause
"""``train --private``, ``predict`` and ``evaluate --private``."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pairlearn import PrivacyLedger, load_model
from pairlearn.cli.program import program
from pairlearn.cli.running import run as run_program
from pairlearn.cli.shared.private_records import read_facts, read_rows

BOUNDS = """
label = "churned"
labels = ["no", "yes"]

[features]
age = [18, 100]
children = { bounds = [0, 4], levels = 5 }
"""


def run(*arguments):
    return CliRunner().invoke(program, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    age = np.round(45 + 20 * y + 10 * rng.normal(size=3000), 1)
    children = rng.integers(0, 5, 3000)
    lines = [f"{a},{c},{('no', 'yes')[k]}" for a, c, k in zip(age, children, y, strict=True)]
    for name, part in (("train", lines[:2000]), ("test", lines[2000:])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,children,churned", *part]) + "\n")
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    return tmp_path


def options(files, epsilon=1, delta="1e-5"):
    return ["--private", "--epsilon", epsilon, "--delta", delta, "--bounds", files / "bounds.toml"]


def test_train_predict_and_evaluate(files):
    ledger = PrivacyLedger.open(files / "ledger", epsilon=2.0, delta=1e-4)
    model = files / "model.safetensors"
    trained = run("train", files / "train.csv", *options(files), "-o", model, "--ledger",
                  files / "ledger")  # fmt: skip
    assert trained.exit_code == 0, trained.output
    assert "(1, 1e-05)-differentially private" in trained.output
    beside = json.loads((files / "model.safetensors.certificate.json").read_text())
    assert beside["epsilon"] == 1.0
    assert load_model(model).feature_names_in_.tolist() == ["age", "children"]
    predicted = run("predict", model, files / "test.csv")
    assert predicted.exit_code == 0, predicted.output
    first = predicted.stdout.splitlines()[0]
    assert "probability" in first
    assert "label" in first
    assert run("privacy", "certify", model).exit_code == 0
    found = run("evaluate", model, files / "test.csv", "--private", "--epsilon", 1, "--delta",
                "1e-5", "--ledger", files / "ledger", "--json")  # fmt: skip
    assert found.exit_code == 0, found.output
    plain = json.loads(found.stdout)
    assert 0.8 < plain["low"] < plain["auc"] < plain["high"] < 1
    assert len(ledger.entries) == 2
    again = run("train", files / "train.csv", *options(files, epsilon=1.9), "-o", model, "--ledger",
                files / "ledger")  # fmt: skip
    assert again.exit_code != 0
    assert "over the budget" in again.output


def test_curves_and_bounds_that_are_found(files):
    model = files / "model.safetensors"
    wide = BOUNDS.replace("[18, 100]", "[-5000, 9000]").replace(
        "[features]", "private_bounds = true\n\n[features]"
    )
    (files / "bounds.toml").write_text(wide)
    trained = run("train", files / "train.csv", *options(files, epsilon=2), "-o", model,
                  "--feature-map", "hats")  # fmt: skip
    assert trained.exit_code == 0, trained.output
    assert "found by 10 levels of bisection" in trained.output
    assert "(Hats), made of public numbers" in trained.output
    loaded = load_model(model)
    assert loaded.bounds_[:, 1].tolist() == [0.0, 4.0]
    assert loaded.bounds_[1, 0] - loaded.bounds_[0, 0] < 500
    assert loaded.features_.n_outputs == 8
    predicted = run("predict", model, files / "test.csv")
    assert predicted.exit_code == 0, predicted.output
    assert run("privacy", "certify", model).exit_code == 0
    auto = run("train", files / "train.csv", *options(files), "--feature-map", "auto")
    assert "it is one of linear, hats, fourier" in auto.output
    (files / "bounds.toml").write_text(wide.replace("true", '"yes"'))
    refused = run("train", files / "train.csv", *options(files))
    assert "must be true or false" in str(refused.exception)


def test_a_broken_line_is_one_row(files):
    facts = read_facts(files / "bounds.toml")
    whole = read_rows(files / "train.csv", facts)
    lines = (files / "train.csv").read_text().splitlines()
    lines[5] = '"never closed, 3'
    lines[7] = "1,2,yes,4,5"
    lines[9] = ""
    (files / "odd.csv").write_text("\r\n".join(lines))
    odd = read_rows(files / "odd.csv", facts)
    assert len(odd.X) == len(whole.X)
    others = [k for k in range(len(odd.X)) if k not in (4, 6, 8)]
    assert [odd.X[k] for k in others] == [whole.X[k] for k in others]
    assert [odd.y[k] for k in others] == [whole.y[k] for k in others]
    assert odd.y[6] == "yes"
    assert odd.X[8] == [None, None]
    trained = run("train", files / "odd.csv", *options(files), "-o", files / "m", "--json")
    assert trained.exit_code == 0, trained.output
    assert json.loads(trained.stdout)["examples"] == 2000


def test_persons(files, capsys):
    (files / "bounds.toml").write_text('user = "who"\n' + BOUNDS)
    lines = (files / "train.csv").read_text().splitlines()
    named = [lines[0] + ",who", *(f"{line},p{k // 4}" for k, line in enumerate(lines[1:]))]
    (files / "people.csv").write_text("\n".join(named))
    trained = run("train", files / "people.csv", *options(files), "-o", files / "m")
    assert trained.exit_code == 0, trained.output
    assert "500 persons" in trained.output
    # A ledger of persons takes this fit, and refuses one of rows with advice for the program.
    PrivacyLedger.open(files / "ledger", epsilon=2.0, delta=1e-4, unit="person")
    paid = [*options(files), "-o", files / "m", "--ledger", files / "ledger"]
    assert run("train", files / "people.csv", *paid).exit_code == 0
    (files / "bounds.toml").write_text(BOUNDS)
    assert run_program(program, ["train", *map(str, [files / "people.csv", *paid])]) != 0
    assert (
        'say whose row each is (user = "COLUMN" in the file of --bounds), or, if nobody has more '
        "than 10 rows, say so in a new ledger: pairlearn privacy ledger create new.ledger "
        "--epsilon 2.0 --delta 0.0001 --unit person --rows-per-person 10."
        in capsys.readouterr().err
    )


def test_refusals(files):
    data = files / "train.csv"
    for arguments, words in (
        ([data, "--private", "--epsilon", 1], "--private needs --delta"),
        ([data, "--epsilon", 1], "--epsilon belongs to --private"),
        ([data, *options(files), "--loss", "hinge"], "--loss has no effect with --private"),
        ([data, data, *options(files)], "one CSV file"),
    ):
        refused = run("train", *arguments)
        assert refused.exit_code != 0
        assert words in refused.output
    for text, words in (
        ("label = 'y'", "bounds of each feature"),
        ("label = 'y'\nlabels = [1]\n[features]\na = [0, 1]", "labels must be"),
        ("label = 'y'\n[features]\na = [0]", "needs public bounds"),
        ("lable = 'y'", "may say"),
        ("label = ", "not TOML"),
        ("label = 'y'\n[features]\nage = [0, 1]", "must name the column 'y'"),
    ):
        (files / "bounds.toml").write_text(text)
        refused = run("train", data, *options(files))
        assert refused.exit_code != 0
        assert words in refused.output + str(refused.exception)
