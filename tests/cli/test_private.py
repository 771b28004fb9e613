# SPDX-License-Identifier: BSD-3-Clause
"""``train --private``, ``predict`` and ``evaluate --private``."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import RandomForestClassifier

from pairlearn import AUCClassifier, AUCStack, PrivacyLedger, load_model
from pairlearn.cli.private.records import read_facts, read_rows
from pairlearn.cli.program import program
from pairlearn.cli.running import run as run_program
from pairlearn.privacy.evaluation import private_roc_auc

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


def test_nothing_is_paid_for_a_model_that_cannot_be_written(files):
    ledger = PrivacyLedger.open(files / "ledger", epsilon=2.0, delta=1e-4)
    for model in (files / "nowhere" / "model", files):
        found = run("train", files / "train.csv", *options(files), "-o", model, "--ledger",
                    files / "ledger")  # fmt: skip
        assert found.exit_code != 0
    assert ledger.entries == ()
    assert not list(files.glob(".*"))


HOMES = 'label = "price"\ntarget_bounds = [0, 600]\nperson = "who"\n'
SIZES = "[features]\nsize = [0, 200]\nage = [0, 100]\n"


@pytest.fixture
def homes(tmp_path):
    rng = np.random.default_rng(1)
    size, age = rng.uniform(0, 200, 3000), rng.uniform(0, 100, 3000)
    price = 2 * size - 0.5 * age + 100 + 10 * rng.normal(size=3000)
    rows = [f"{a:.1f},{b:.1f},p{k // 2},{c:.1f}" for k, (a, b, c) in
            enumerate(zip(size, age, price, strict=True))]  # fmt: skip
    (tmp_path / "homes.csv").write_text("\n".join(["size,age,who,price", *rows]) + "\n")
    (tmp_path / "bounds.toml").write_text(HOMES + SIZES)
    return tmp_path


def test_a_regression(homes):
    model, data = homes / "model.safetensors", homes / "homes.csv"
    trained = run("train", data, *options(homes, epsilon=4), "-o", model)
    assert trained.exit_code == 0, trained.output
    assert "one person with all examples replaced by another" in trained.output
    assert "target: between 0 and 600" in trained.output
    # The seeds are secret: a slope is ten standard deviations of its noise from being missed.
    assert load_model(model).coef_ == pytest.approx([2.0, -0.5], abs=0.3)
    predicted = run("predict", model, data)
    assert predicted.exit_code == 0, predicted.output
    assert predicted.stdout.splitlines()[0] == "line,prediction"
    found = json.loads(run("evaluate", model, data, "--json").stdout)
    assert found["median_absolute_error"] < 40
    refused = run("evaluate", model, data, "--private", "--epsilon", 1, "--delta", "1e-5")
    assert refused.exit_code == 2
    assert "is a PrivateEntropyRegressor for something else" in refused.output


@pytest.mark.parametrize(
    ("facts", "more", "words"),
    [
        (HOMES.replace("[0, 600]", "600"), [], "target_bounds must be two numbers"),
        (HOMES.replace("[0, 600]", "[600, 0]"), [], "finite with lower < upper"),
        (HOMES + "labels = [0, 1]\n", [], "for the training of a regression"),
        (HOMES, ["--set", "target_bounds=[0,1]"], "write it into the file of --bounds"),
        (HOMES, ["--set", "features=hats"], "PrivateEntropyRegressor has no features"),
    ],
)
def test_refusals_of_a_regression(homes, facts, more, words):
    (homes / "bounds.toml").write_text(facts + SIZES)
    found = run("train", homes / "homes.csv", *options(homes), *more, "-o", homes / "m")
    assert found.exit_code != 0
    assert words in " ".join(f"{found.output} {found.exception}".split())


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
    lines[6] = '5,3,"no"x'
    lines[7] = "1,2,yes,4,5"
    lines[9] = ""
    (files / "odd.csv").write_text("\r\n".join(lines))
    odd = read_rows(files / "odd.csv", facts)
    assert len(odd.X) == len(whole.X)
    others = [k for k in range(len(odd.X)) if k not in (4, 5, 6, 8)]
    assert [odd.X[k] for k in others] == [whole.X[k] for k in others]
    assert [odd.y[k] for k in others] == [whole.y[k] for k in others]
    assert odd.y[6] == "yes"
    assert odd.X[8] == ["", None]
    trained = run("train", files / "odd.csv", *options(files), "-o", files / "m", "--json")
    assert trained.exit_code == 0, trained.output
    assert json.loads(trained.stdout)["examples"] == 2000


def test_persons(files, capsys):
    (files / "bounds.toml").write_text('person = "who"\n' + BOUNDS)
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
        'say whose row each is (person = "COLUMN" in the file of --bounds), or, if nobody has more '
        "than 10 rows, say so in a new ledger: pairlearn privacy ledger create new.ledger "
        "--epsilon 2.0 --delta 0.0001 --unit person --rows-per-person 10."
        in capsys.readouterr().err
    )
    # It may take two columns to tell persons apart.
    (files / "bounds.toml").write_text('person = ["site", "who"]\n' + BOUNDS)
    named = [lines[0] + ",who,site", *(f"{line},p{k % 4},s{k // 8}" for k, line in
                                       enumerate(lines[1:]))]  # fmt: skip
    (files / "people.csv").write_text("\n".join(named))
    trained = run("train", files / "people.csv", *options(files), "-o", files / "m")
    assert trained.exit_code == 0, trained.output
    assert "1000 persons" in trained.output
    rows = read_rows(files / "people.csv", read_facts(files / "bounds.toml"))
    assert rows.persons[:2] == [("s0", "p0"), ("s0", "p1")]


@pytest.fixture
def plain_model(files):
    """Return a model of plain train, of numbers and categories, with labels in many spellings."""
    lines = (files / "train.csv").read_text().splitlines()
    rich = [lines[0] + ",plan"]
    for k, line in enumerate(lines[1:400]):
        plan = "pro" if line.endswith("yes") == bool(k % 7) else "Free"
        rich.append(f"{line.replace('yes', 'Yes') if k % 2 else line},{plan}")
    (files / "open.csv").write_text("\n".join(rich))
    path = files / "plain.safetensors"
    trained = run("train", files / "open.csv", "--label", "churned", "-o", path)
    assert trained.exit_code == 0, trained.output
    return path


def evaluated(model, data, *more):
    found = run("evaluate", model, data, "--private", "--epsilon", 100, "--delta", "1e-3", "--json",
                *more)  # fmt: skip
    assert found.exit_code == 0, found.output + str(found.exception)
    return json.loads(found.stdout)


def test_a_model_of_plain_train_is_evaluated_privately(files, plain_model):
    exact = run("evaluate", plain_model, files / "open.csv", "--json")
    noisy = evaluated(plain_model, files / "open.csv")
    assert noisy["auc"] == pytest.approx(json.loads(exact.stdout)["auc"], abs=0.02)
    assert noisy["certificate"]["public"]["rows"] == "one for each line of a CSV file"
    # One odd cell of a column of numbers changes the score of its row only.
    lines = (files / "open.csv").read_text().splitlines()
    for line in ("1e999,x,perhaps,", "1_0,\u0663,no,\0", '"never closed'):
        (files / "odd.csv").write_text("\n".join([*lines[:50], line, *lines[51:]]))
        assert evaluated(plain_model, files / "odd.csv")["auc"] == pytest.approx(
            noisy["auc"], abs=0.03
        )


def test_other_models_are_refused_with_the_reason(files):
    path = files / "m.safetensors"
    run("train", files / "train.csv", "--label", "age", "--problem", "entropy", "-o", path)
    refused = run("evaluate", path, files / "test.csv", "--private", "--epsilon", 1, "--delta", 0.1)
    assert refused.exit_code == 2
    assert "the AUC of two classes" in refused.output
    AUCClassifier(random_state=0).fit(np.eye(6), [0, 1] * 3).save(path)
    refused = run("evaluate", path, files / "test.csv", "--private", "--epsilon", 1, "--delta", 0.1)
    assert "columns without names" in refused.output


def test_facts_of_an_evaluation(files, plain_model, monkeypatch):
    asked = {}

    def measured(y, scores, *, groups=None, **options):
        asked["groups"] = groups
        return private_roc_auc(y, scores, **options)

    monkeypatch.setattr("pairlearn.privacy.evaluation.private_roc_auc", measured)
    lines = (files / "open.csv").read_text().replace(",", ";").splitlines()
    named = [lines[0] + ";who", *(f"{line};p{k // 4}" for k, line in enumerate(lines[1:]))]
    (files / "people.csv").write_text("\n".join(named))
    (files / "facts.toml").write_text(
        'label = "churned"\nlabels = ["No", "yes"]\nperson = "who"\ndelimiter = ";"'
    )
    bounds = ("--bounds", files / "facts.toml")
    wrong = run("evaluate", plain_model, files / "people.csv", "--private", "--epsilon", 1,
                "--delta", 0.1, *bounds)  # fmt: skip
    assert "says labels = ['No', 'yes'], and those of" in wrong.output
    (files / "facts.toml").write_text('label = "churned"\nperson = "who"\ndelimiter = ";"')
    evaluated(plain_model, files / "people.csv", *bounds)
    assert asked["groups"][:5] == ["p0", "p0", "p0", "p0", "p1"]
    beside = run("evaluate", plain_model, files / "people.csv", *bounds)
    assert "--bounds belongs to --private" in beside.output


def test_no_score_of_an_evaluation_overflows(files):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    x = 1e-260 * (rng.normal(size=300) + 2 * y)
    table = pd.DataFrame({"x": x, "y": y})
    AUCClassifier().fit(table[["x"]], y).save(files / "tiny.safetensors")
    (files / "facts.toml").write_text('label = "y"\n')
    table.loc[0, "x"] = 1e300
    table.to_csv(files / "tiny.csv", index=False)
    found = run("evaluate", files / "tiny.safetensors", files / "tiny.csv", "--private",
                "--epsilon", 9, "--delta", "1e-4", "--bounds", files / "facts.toml",
                "--json")  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["auc"] > 0.7


def test_a_forest_scores_any_number(files):
    # A forest compares in float32, and says so where a number is larger: an error about one row.
    table = pd.read_csv(files / "test.csv").iloc[:200]
    table["age"] = table["age"].astype(float)
    members = [("linear", AUCClassifier()), ("forest", RandomForestClassifier(3, random_state=0))]
    stack = AUCStack(members, random_state=0).fit(table[["age", "children"]], table["churned"])
    stack.save(files / "stack.safetensors")
    (files / "facts.toml").write_text('label = "churned"\n')
    table.loc[0, "age"] = 1e39
    table.to_csv(files / "huge.csv", index=False)
    found = evaluated(files / "stack.safetensors", files / "huge.csv", "--bounds",
                      files / "facts.toml")  # fmt: skip
    assert found["auc"] > 0.7


def test_persons_are_evaluated(files, plain_model):
    lines = (files / "open.csv").read_text().splitlines()
    named = [lines[0] + ",who", *(f"{line},p{k // 4}" for k, line in enumerate(lines[1:]))]
    (files / "people.csv").write_text("\n".join(named))
    (files / "facts.toml").write_text('label = "churned"\nperson = "who"')
    found = evaluated(plain_model, files / "people.csv", "--bounds", files / "facts.toml")
    assert found["certificate"]["n_examples"] == 100
    assert found["certificate"]["unit"] == "person"


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
        ("person = 3\nlabel = 'y'\n[features]\na = [0, 1]", "person must be a column or a list"),
        ("person = []\nlabel = 'y'\n[features]\na = [0, 1]", "person must be a column or a list"),
        ("delimiter = ', '\nlabel = 'y'\n[features]\na = [0, 1]", "one character"),
        ("line_ends_in_fields = 1\nlabel = 'y'\n[features]\na = [0, 1]", "must be true or false"),
        ("label = 'y'\n[features]\nage = [0, 1]", "each of the columns 'age', 'y' exactly once"),
        ("label = 'y'\n[features]\na = { bounds = [0, 4], level = 5 }", "needs public bounds"),
        ("label = 'y'\n[features]\na = [0, 1]\ny = [0, 1]", "is the label and a feature"),
        ("label = 'y'\nperson = ['y']\n[features]\na = [0, 1]", "is the label and the person"),
    ):
        (files / "bounds.toml").write_text(text)
        refused = run("train", data, *options(files))
        assert refused.exit_code != 0
        assert words in refused.output + str(refused.exception)
