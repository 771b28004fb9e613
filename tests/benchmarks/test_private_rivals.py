# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from benchmarks.league_table import Task
from benchmarks.private_contestants import (
    BIN_SHARE,
    CONTESTANTS,
    Budget,
    Contestant,
    Table,
    batches,
    boosting_epsilon,
    noise_multiplier,
)
from benchmarks.private_rivals import (
    Cell,
    coarse_images,
    main,
    n_splits,
    outcomes,
    read_set,
    rows_of,
    show,
    sizes_of,
)

from pairlearn.privacy import mu_of

BUDGET = Budget(1.0, 1e-4)


def a_table(n=400, d=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 5.0, size=(n, d))
    y = (X[:, 0] + rng.normal(size=n) > 1.0).astype(np.int64)
    return Table(X, y, np.full(d, -3.0), np.full(d, 5.0))


def named(name):
    return next(contestant for contestant in CONTESTANTS if contestant.name == name)


def a_rival(grid=()):
    return Contestant("rival", lambda: None, lambda: None, {}, tuple(grid))


def cell_of(ours, rival, *others):
    task = Task("t", np.zeros((10, 2)), np.array([0, 1] * 5))
    auc = {("ours", 0): ours, ("rival", 0): rival}
    return Cell(task, 256, auc | {("rival", k + 1): other for k, other in enumerate(others)})


def test_boosting_spends_the_whole_budget_for_one_example_replaced():
    for epsilon in (0.2, 1.0, 4.0):
        own = boosting_epsilon(epsilon, 1e-4)
        bins, rounds = (mu_of(share * own, 5e-5) for share in (BIN_SHARE, 1.0 - BIN_SHARE))
        assert np.sqrt(2 * bins**2 + 4 * rounds**2) == pytest.approx(mu_of(epsilon, 1e-4), rel=1e-6)
        assert 0.4 * epsilon < own < 0.7 * epsilon


@pytest.mark.filterwarnings("ignore")
def test_boosting_has_the_noise_that_its_account_assumes():
    pytest.importorskip("interpret", reason="DP-EBM is in the extra rivals")
    from interpret.privacy import DPExplainableBoostingClassifier

    table = a_table()
    bounds = np.column_stack([table.lower, table.upper])
    model = DPExplainableBoostingClassifier(
        epsilon=0.5, delta=1e-4, feature_types=["continuous"] * 3, privacy_bounds=bounds, n_jobs=1,
        max_rounds=20, random_state=0,
    ).fit(table.X, table.y)  # fmt: skip
    rate = model.learning_rate
    assert model.noise_scale_binning_ == pytest.approx(np.sqrt(3) / mu_of(0.05, 5e-5), rel=1e-4)
    rounds = np.sqrt(20 * 3) / mu_of(0.45, 5e-5)
    assert model.noise_scale_boosting_ == pytest.approx(rate * rounds, rel=1e-4)


def test_batches_and_steps_grow_with_the_root_of_n():
    assert batches(256, 15) == (0.5, 30)
    assert batches(4096, 15) == (0.125, 120)
    assert batches(16, 15) == (1.0, 15)


@pytest.mark.filterwarnings("ignore")
def test_descent_without_sampling_has_twice_the_noise_of_one_example_added():
    pytest.importorskip("opacus", reason="Opacus is in the extra rivals")
    # Twenty Gaussian releases of sensitivity 2: mu = 2 sqrt(20) / noise.
    exact = 2.0 * np.sqrt(20) / mu_of(1.0, 1e-4)
    assert exact <= noise_multiplier(1.0, 1e-4, 1.0, 20) < 1.04 * exact


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda contestant: contestant.name)
def test_every_method_learns_with_a_large_budget(contestant):
    if contestant.problem():
        pytest.skip(f"{contestant.name}: {contestant.problem()}; it is in the extra rivals")
    from pairlearn.metrics import roc_auc

    table = a_table(2000)
    score, seconds = contestant.run(table, Budget(50.0, 1e-3), 1, contestant.setting)
    assert roc_auc(table.y, score(table.X)) > 0.8
    assert seconds > 0.0


@pytest.mark.filterwarnings("ignore")
def test_rows_of_objective_perturbation_are_no_longer_than_one(monkeypatch):
    models = pytest.importorskip("diffprivlib.models", reason="diffprivlib is in the extra rivals")
    seen = []
    plain = models.LogisticRegression.fit

    def fit(self, X, y):
        seen.append(np.linalg.norm(X, axis=1).max())
        assert self.data_norm == 1.0
        assert not self.fit_intercept
        return plain(self, X, y)

    monkeypatch.setattr(models.LogisticRegression, "fit", fit)
    table = a_table()
    corner = Table(np.vstack([table.X, table.upper, table.lower]), np.append(table.y, [0, 1]),
                   table.lower, table.upper)  # fmt: skip
    contestant = named("diffprivlib")
    contestant.run(corner, BUDGET, 0, {"C": 1.0, "length": 1.0})
    assert seen == [pytest.approx(1.0)]


def test_a_package_that_is_missing_or_broken_is_named():
    def broken(*_, **__):
        raise TypeError("no such argument")

    absent = Contestant("x", broken, broken, {}, needs={"no_such_module_": "no-such"})
    assert absent.problem() == "not installed (no-such)"
    assert a_rival().problem().startswith("does not run (TypeError: ")
    ours = Contestant("ours", broken, broken, {})
    problems = {"x": absent.problem()}
    (line,) = rows_of(cell_of([[0.8]], [[0.7]]), [1.0], [ours, absent], problems)
    assert line == "| t | 0.500 | 256 | 1 | **.800** | not installed |"


def test_the_best_of_a_grid_is_chosen_for_each_epsilon():
    cell = cell_of([[0.8, 0.8]], [[0.5, 0.9]], [[0.6, 0.7]])
    assert cell.best(a_rival([{}])).tolist() == [[0.6, 0.9]]


def test_wins_and_losses_need_more_than_noise():
    ours = Contestant("ours", lambda: None, lambda: None, {})
    clear = cell_of([[0.8, 0.7], [0.81, 0.71]], [[0.7, 0.8], [0.71, 0.81]])
    noisy = cell_of([[0.8, 0.7], [0.6, 0.9]], [[0.7, 0.8], [0.68, 0.81]])
    lines = outcomes([clear, noisy], [ours, a_rival()])
    assert lines[-1] == "| rival | +0.001 | 1 : 2 : 1 |"
    one_split = cell_of([[0.8, 0.7]], [[0.5, 0.9]])
    assert outcomes([one_split], [ours, a_rival()])[-1] == "| rival | +0.050 | 0 : 2 : 0 |"


def test_sizes_splits_and_cells():
    task = Task("t", np.zeros((1000, 100)), np.zeros(1000, dtype=np.int64))
    assert sizes_of(task, [256, 500, 900]) == [500]
    assert [n_splits(n, 6) for n in (256, 1000, 5000)] == [6, 6, 2]
    assert n_splits(5000, 1) == 1
    assert show([0.8, 0.8]) == ".800±.000"
    assert show([1.0]) == "1.000"


def test_blocks_of_pixels():
    image = np.zeros((28, 28))
    image[:7, 7:14] = 2.0
    small = coarse_images(image.reshape(1, -1)[:, :780])
    assert small.shape == (1, 16)
    assert small[0].tolist() == [0.0, 2.0] + [0.0] * 14


def test_sets_of_a_folder(tmp_path):
    (tmp_path / "a.libsvm").write_text("".join(f"{k % 3} 1:{k}\n" for k in range(7)))
    assert read_set(tmp_path, "a").y.tolist() == [1, 0, 0, 1, 0, 0, 1]
    assert read_set(tmp_path, "a rare").y.sum() == 2
    with pytest.raises(SystemExit, match=r"no file b\.libsvm"):
        read_set(tmp_path, "b")
    with pytest.raises(SystemExit, match="takes NAME or"):
        read_set(tmp_path, "a first")


def test_wrong_arguments_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--splits", "0"])
    assert "--splits must be positive" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--sets", "nothing"])
    assert "without --data" in capsys.readouterr().err


@pytest.mark.thorough
def test_the_program_prints_and_writes_the_tables(tmp_path, capsys):
    path = tmp_path / "table.md"
    chosen = ["--sets", "breast_cancer", "--n", "256", "--epsilon", "1", "--splits", "2"]
    methods = ["--methods", "ours", "ours, hats", "--jobs", "1", "--markdown", str(path)]
    assert main([*chosen, *methods]) == 0
    text = capsys.readouterr().out
    assert path.read_text() == text
    assert "| breast_cancer | 0.627 | 256 | 1 | " in text
    assert "| ours, hats | " in text.splitlines()[-1]
