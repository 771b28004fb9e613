# SPDX-License-Identifier: BSD-3-Clause
"""--set PATH=VALUE: paths, values, refusals, config files, every problem, and what is recorded."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pairlearn import SGD, AUCClassifier, Exact, Hats, Push, Threshold, load_model
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.cli.shared.scoring import PROBLEMS
from pairlearn.cli.shared.settings import Settings, setting_of
from pairlearn.estimators import MetricSGD
from pairlearn.estimators.shared.decisions import Costs
from pairlearn.models import read_model
from pairlearn.pairings import FifoBuffer


def call(capsys, *arguments, status=0):
    code = run(program, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == status, captured.err
    return captured


def sets(*texts):
    return [argument for text in texts for argument in ("--set", text)]


def made(*texts, problem="auc"):
    """Return the estimator after settings."""
    found = Settings()
    for text in texts:
        path, _, value = text.partition("=")
        found[path] = setting_of(path, value)
    return PROBLEMS[problem].make(found, 0)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    folder = tmp_path_factory.mktemp("settings")
    lines = [f"{a!r},{b!r},{k % 10},{label}" for k, ((a, b), label) in
             enumerate(zip(X.tolist(), y.tolist(), strict=True))]  # fmt: skip
    path = folder / "t.csv"
    path.write_text("a,b,q,y\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def train(table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = ("train", table, "--label", "y", "--set", "reading.features=a,b", "-o", "m")

    def call_train(*arguments, status=0):
        return call(capsys, *base, *arguments, status=status)

    return call_train


@pytest.mark.parametrize(
    ("texts", "parameters"),
    [
        (["solver.step_size=0.1"], {"solver": SGD(step_size=0.1)}),
        (["solver=exact", "solver.ridge=0.5"], {"solver": Exact(ridge=0.5)}),
        (["objective=push", "objective.power=4"], {"objective": Push(power=4)}),
        (["objective.power=4"], {"objective": Push(power=4)}),
        (["features.n_knots=8"], {"features": Hats(n_knots=8)}),
        (['features.monotone={"a": 1}'], {"features": Hats(monotone={"a": 1})}),
        (["decision=f1"], {"decision": "f1"}),
        (["decision=0.5"], {"decision": 0.5}),
        (["decision=f1", "decision.calibration=isotonic"],
         {"decision": Threshold("f1", calibration="isotonic")}),
        (["decision.false_positive=1", "decision.false_negative=20"],
         {"decision": Costs(1, 20)}),
        (["solver.pairing=fifo", "solver.pairing.buffer_size=3"],
         {"solver": SGD(pairing=FifoBuffer(3))}),
        (["solver.radius=inf"], {"solver": SGD(radius=np.inf)}),
        (["scaling=null", "validation_fraction=0.3"],
         {"scaling": None, "validation_fraction": 0.3}),
        (["class_weight=balanced"], {"class_weight": "balanced"}),
    ],
)  # fmt: skip
def test_paths_reach_parts(texts, parameters):
    expected = AUCClassifier(random_state=0, **parameters).get_params(deep=False)
    assert made(*texts).get_params(deep=False) == expected


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["solver"], "--set must be PATH=VALUE, as in solver.step_size=0.1; got 'solver'"),
        (["=3"], "--set must be PATH=VALUE"),
        (["solver="], "has no value"),
        (["sovler.step_size=1"], "did you mean 'solver'?"),
        (["step_size=1"], "AUCClassifier has no step_size"),
        (["solver.stepsize=1"], "no solver has stepsize; did you mean 'step_size'?"),
        (["solver=sdg"], "did you mean 'sgd'?"),
        (["solver.ridge=1"], "needs --set solver=exact or --set solver=moments"),
        (["solver=sgd", "solver.ridge=1"], "has no field ridge; there are step_size"),
        (["objective.power=4", "objective.max_fpr=0.1"], "no objective has all of these fields"),
        (["solver.pairing=fivo"], "--set solver.pairing=fivo: pairing must be one of"),
        (["solver.step_size=-1"], "--set solver.step_size=-1: step_size must be a positive number"),
        (["solver.step_size=nan"], "--set solver.step_size=nan: step_size must be"),
        (["solver.step_size=1e400"], "larger than any number"),
        (["solver.step_size=inf"], "--set solver.step_size=inf: step_size must be a positive"),
        (["features.n_knots=2.5"], "--set features.n_knots=2.5: n_knots must be a whole number"),
        (["decision.false_positive=1"], "false_negative"),
        (["objective=pusch"], "did you mean 'push'?"),
        (["objective.power=2", "objective=pusch"], "--set objective=pusch: objective must be"),
        (["decision=0.5", "decision.calibration=isotonic"], "has no field calibration."),
        (["random_state=3"], "use --seed"),
        (["callbacks=3"], "in Python only"),
        (["stream.windwo=3"], "has no field windwo; did you mean 'window'?"),
        (["stream=3"], "stream itself has no value"),
        (["stream.window=1"], "--set stream.window=1: window must be at least 2"),
        (["reading.hedaer=false"], "did you mean 'header'?"),
        (["reading.header=7"], "header must be true or false"),
        (["reading.n_features=0"], "must be a whole number of at least 1"),
        (["reading.label=y"], "use --label"),
        (["solver.step_size=1", "solver.step_size=2"], "is given twice"),
        (['class_weight={"0": 1, "1": 5}'], 'the program takes "balanced" or null'),
        (["stream.window=9", "solver.n_passes=2"], "use --set stream.n_passes"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(texts, message, train):
    err = train(*sets(*texts), status=2).err
    assert message in err
    assert err.count("\n") == 1


def test_options_and_settings_of_the_same_part(train):
    train("--objective", "push", "--decision", "f1", *sets("objective.power=2"))
    model = load_model("m")
    assert (model.objective, model.decision) == (Push(power=2), "f1")
    err = train("--loss", "hinge", *sets("loss=logistic"), status=2).err
    assert "--loss hinge and --set loss=logistic set the same" in err
    assert "got 'pusch'; did you mean 'push'?" in train("--objective", "pusch", status=2).err
    assert "PairwiseRanker has no objective" in train("--problem", "ranking", "--objective", "push",
                                                      status=2).err  # fmt: skip


def test_settings_change_the_fit_and_are_recorded(train, table):
    train(*sets("solver.step_size=0.25", "solver.n_passes=3"))
    record = read_model("m")
    assert record.provenance["set"] == {
        "solver.n_passes": "3", "solver.step_size": "0.25"
    }  # fmt: skip
    rows = np.genfromtxt(table, delimiter=",", names=True)
    X = np.column_stack([rows["a"], rows["b"]])
    expected = AUCClassifier(solver=SGD(step_size=0.25, n_passes=3), random_state=0)
    expected.fit(X, rows["y"])
    assert record.arrays["coef"].tobytes() == expected.coef_.tobytes()
    assert load_model("m").solver == SGD(step_size=0.25, n_passes=3)


def test_what_does_not_change_the_model_is_not_recorded(train):
    train(*sets("stream.every=100", "stream.checkpoint=c", "stream.n_passes=2"))
    assert read_model("m").provenance["set"] == {"stream.n_passes": "2"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("problem", "setting", "parameter"),
    [
        ("classes", "features.n_knots=4", Hats(n_knots=4)),
        ("ranking", "features.n_knots=4", Hats(n_knots=4)),
        ("entropy", "features.n_knots=4", Hats(n_knots=4)),
        ("metric", "features.n_knots=4", Hats(n_knots=4)),
        ("ranking", "k=5", 5),
        ("entropy", "window=epanechnikov", "epanechnikov"),
        ("metric", "loss=hinge_no_bias", "hinge_no_bias"),
        ("metric", "n_neighbors=2", 2),
        ("ranking", "solver.step_size=0.5", SGD(step_size=0.5)),
        ("entropy", "solver.step_size=0.5", SGD(step_size=0.5)),
        ("metric", "solver.step_size=0.5", SGD(step_size=0.5)),
        ("metric", "solver.projection=exact", MetricSGD(projection="exact")),
    ],
)
def test_every_problem_has_settings(problem, setting, parameter, train):
    train("--problem", problem, *sets(setting))
    name = setting.partition("=")[0].partition(".")[0]
    assert getattr(load_model("m"), name) == parameter
    err = train("--problem", problem, *sets("rank_of=3"), status=2).err
    assert f"{PROBLEMS[problem].estimator} has no rank_of" in err


def test_losses_of_a_problem_have_fields():
    from pairlearn.losses import DistanceHinge

    assert made("loss.bias=0.5", problem="metric").loss == DistanceHinge(bias=0.5)


@pytest.mark.parametrize("turn", [1, -1])
def test_fields_that_need_one_another_come_in_any_order(turn):
    texts = ["solver.period=2", "solver.projection=every", "solver.step_size=1"][::turn]
    expected = MetricSGD(period=2, projection="every", step_size=1)
    assert made(*texts, problem="metric").solver == expected


def test_config_files(train, tmp_path):
    (tmp_path / "c.toml").write_text(
        'objective = "push"\n"objective.power" = 2\n[set]\n"solver.step_size" = 0.5\n'
        "[set.solver]\nn_passes = 3\n"
    )
    train("--config", "c.toml", *sets("solver.step_size=0.25"))
    model = load_model("m")
    assert (model.objective, model.solver) == (Push(power=2), SGD(step_size=0.25, n_passes=3))
    for text, message in (
        ("step-size = 1", "there is no option 'step-size'"),
        ("[set]\nsolver.stepsize = 1", "did you mean 'step_size'?"),
        ("[set]\n'a b' = 1", "--set must be PATH=VALUE"),
    ):
        (tmp_path / "c.toml").write_text(text)
        err = train("--config", "c.toml", status=2).err
        assert message in err
        assert err.count("\n") == 1


def test_a_command_has_its_own_settings_only(capsys):
    err = call(capsys, "predict", "m", "a", *sets("solver.step_size=1"), status=2).err
    assert "this command has settings of reading only" in err


def test_train_lists_at_most_25_options_and_loads_no_solver():
    code = (
        "import sys\nfrom pairlearn.cli.program import program\n"
        "from pairlearn.cli.running import run\nrun(program, ['train', '--help'])\n"
        "print({'numba', 'sklearn', 'scipy'} & set(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"
    listed = [line for line in done.stdout.split("Options:")[1].splitlines()
              if line.startswith("  -")]  # fmt: skip
    assert listed.pop().startswith("  -h, --help")
    assert 20 < len(listed) <= 25
    # an option that has no line of its own stands in that of the formats
    about = " ".join(done.stdout.split("  --format")[1].split("  --set")[0].split())
    assert about.endswith("duckdb takes --query SQL.")


def test_settings_beside_private(table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.toml").write_text(
        'label = "y"\nlabels = ["0", "1"]\n[features]\na = [-4, 4]\nb = [-4, 4]\n'
    )
    base = ["train", table, "--private", "--epsilon", 1, "--delta", 1e-6, "--bounds", "b.toml",
            "-o", "m"]  # fmt: skip
    call(capsys, *base, *sets("mechanism.n_rounds=2"))
    program_text = read_model("m").provenance["program"]
    assert program_text == "pairlearn train --private --set mechanism.n_rounds=2"
    for text, message in (
        ("mechanism.n_rounds=0", "--set mechanism.n_rounds=0: n_rounds must be"),
        ("stream.window=9", "--set stream.window=9: --private does not learn a stream"),
        ("solver.step_size=1", "PrivateAUCClassifier has no solver.step_size"),
        ("random_state=1", "must be secret"),
        ("epsilon=3", "an option of its own"),
        ("reading.header=false", "--set reading.header has no effect with --private"),
        ("mechanism=statistic", "did you mean 'statistics'?"),
    ):
        assert message in call(capsys, *base, *sets(text), status=2).err


def test_inspect_shows_parts_and_choices_for_a_person(train, capsys):
    train(*sets("solver=exact"))
    found = call(capsys, "inspect", "m").out
    assert "  solver: exact\n" in found
    assert "found by the fit:\n  solver_: exact\n" in found
    assert "the best of " in found
    assert "{'part'" not in found
    train(*sets("solver.step_size=0.5"))
    assert "  solver: SGD(step_size=0.5)\n" in call(capsys, "inspect", "m").out
