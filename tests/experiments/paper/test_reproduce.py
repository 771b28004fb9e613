# SPDX-License-Identifier: BSD-3-Clause
import csv
import re
from dataclasses import replace

import numpy as np
import pytest

from pairlearn.data import DataUnavailableError, load
from pairlearn.data.dataset import Dataset
from pairlearn.experiments.methods.private import PUBLIC_FACTS
from pairlearn.experiments.paper import outcome as outcome_module
from pairlearn.experiments.paper.outcome import QUICK_EXAMPLES, QUICK_NUMBERS, Settings, Shelf
from pairlearn.experiments.paper.private_tables import ROWS
from pairlearn.experiments.paper.targets import TARGETS, reproduce, write_reproduction

pytest.importorskip("matplotlib", reason="figures need matplotlib")


def setup(tmp_path, **options):
    options = {"datasets": ("breast_cancer",), "n_splits": 2, "quick": True} | options
    settings = Settings(store=tmp_path / "results.sqlite", **options)
    return settings, Shelf(settings)


def fake(name, n, seed=0):
    """Return examples inside the public bounds of a data set, with a linear signal."""
    facts = PUBLIC_FACTS[name]
    rng = np.random.default_rng(seed)
    U = rng.uniform(size=(n, len(facts.lower)))
    low, high = np.asarray(facts.lower), np.asarray(facts.upper)
    y = np.where(U[:, 1] + 0.2 * rng.normal(size=n) > 0.5, 1.0, -1.0)
    return Dataset(low + U * (high - low), y, name, "made", (-1.0, 1.0), "test", f"{seed:064d}")


def test_every_target_is_known_to_the_program():
    from pairlearn.cli.reproduce import NAMES

    assert tuple(TARGETS) == NAMES


def test_unknown_target(tmp_path):
    with pytest.raises(ValueError, match="choose from table1"):
        next(reproduce(["table2"], *setup(tmp_path)))


@pytest.mark.thorough
def test_table_and_figures_on_one_page(tmp_path):
    settings, shelf = setup(tmp_path, methods=("ours", "sgd-pair"), n_splits=1)
    names = ["table1", "fig-hinge", "fig-sampling", "fig-loglink"]
    outcomes = list(reproduce(names, settings, shelf))
    assert [outcome.name for outcome in outcomes] == names
    assert all(outcome.parts and outcome.seconds > 0 for outcome in outcomes)
    assert "breast_cancer" in outcomes[0].text
    assert "legacy" in outcomes[2].text
    page = write_reproduction(outcomes, tmp_path / "page", settings=settings, shelf=shelf)
    text = page.read_text()
    identifiers = re.findall(r'\sid="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers))
    for target in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text):
        assert "".join(target) in identifiers
    with (tmp_path / "page" / "fig-loglink-risk.csv").open() as lines:
        risks = [float(row["risk"]) for row in csv.DictReader(lines)]
    assert 0 < min(risks) < 0.15 < max(risks) < 1


@pytest.mark.thorough
def test_published_numbers_stand_beside_ours(tmp_path):
    settings, shelf = setup(tmp_path, methods=("ours",), datasets=())
    shelf._loaded["german"] = replace(load("breast_cancer"), name="german")
    shelf.missing.update(dict.fromkeys(("diabetes", "ijcnn1", "letter", "mnist", "usps"), "gone"))
    (outcome,) = reproduce(["table1"], settings, shelf)
    line = next(
        line for line in outcome.text.splitlines() if line.split()[:2] == ["ours", "german"]
    )
    assert line.endswith("0.793 +- 0.021")
    assert "not judged" in " ".join(outcome.text.split())
    whole = replace(settings, quick=False)
    (outcome,) = reproduce(["table1"], whole, shelf)
    line = next(
        line for line in outcome.text.splitlines() if line.split()[:2] == ["ours", "german"]
    )
    assert line.endswith("above")
    assert "Here over 2 splits" in outcome.text
    assert "25 runs" not in outcome.title


@pytest.mark.thorough
def test_paper_protocol_reports_best_and_end(tmp_path):
    settings, shelf = setup(tmp_path, methods=("ours",), datasets=(), protocol="paper")
    shelf._loaded["german"] = replace(load("breast_cancer"), name="german")
    shelf.missing.update(dict.fromkeys(("diabetes", "ijcnn1", "letter", "mnist", "usps"), "gone"))
    (outcome,) = reproduce(["table1"], settings, shelf)
    lines = [line for line in outcome.text.splitlines() if "0.793 +- 0.021" in line]
    reported, at_end = (float(line.split()[2]) for line in lines)
    assert reported >= at_end
    assert "As the published code reports" in outcome.text


@pytest.mark.thorough
def test_missing_sets_are_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    def only_one(name):
        if name == "breast_cancer":
            return load(name)
        raise DataUnavailableError(f"{name} is not here")

    monkeypatch.setattr(outcome_module, "load", only_one)
    settings, shelf = setup(tmp_path, methods=("ours",), datasets=("mnist", "breast_cancer"))
    (outcome,) = reproduce(["table1"], settings, shelf)
    assert shelf.missing == {"mnist": "mnist is not here"}
    assert "breast_cancer" in outcome.text
    settings, shelf = setup(tmp_path, datasets=("mnist",))
    outcomes = list(reproduce(["table1", "table-dp-time", "fig-square"], settings, shelf))
    assert all(not outcome.parts and "available" in outcome.text for outcome in outcomes)


def test_quick_takes_a_part_under_its_own_digest(tmp_path, monkeypatch):
    n = QUICK_EXAMPLES + 500
    big = Dataset(np.zeros((n, 2)), np.ones(n), "big", "made", (1.0,), "test", "a" * 64)
    monkeypatch.setattr(outcome_module, "load", lambda name: big)
    (taken,) = setup(tmp_path, datasets=("big",))[1].take(())
    assert taken.n == QUICK_EXAMPLES
    assert taken.sha256 != big.sha256
    (whole,) = setup(tmp_path, datasets=("big",), quick=False)[1].take(())
    assert whole is big
    wide = replace(big, X=np.zeros((n, 1000)))
    monkeypatch.setattr(outcome_module, "load", lambda name: wide)
    (taken,) = setup(tmp_path, datasets=("wide",))[1].take(())
    assert taken.n == QUICK_NUMBERS // 1000


@pytest.mark.thorough
def test_private_tables(tmp_path):
    settings, shelf = setup(tmp_path, datasets=(), n_splits=1)
    shelf._loaded = {"diabetes": fake("diabetes", 400), "german": fake("german", 400)}
    (by_epsilon,) = reproduce(["table-dp-diabetes"], settings, shelf)
    for row in [*ROWS, "non-private"]:
        # Of AUC and of seconds.
        assert by_epsilon.text.count(f"\nhere: {row} ") == 2, row
    few = replace(settings, methods=("localized_sgd", "statistics"))
    (by_size,) = reproduce(["table-dp-time"], few, shelf)
    # Of AUC and of seconds.
    assert by_size.text.count("\nhere: Algorithm 3, corrected noise ") == 2
    assert "here: DPEGD" not in by_size.text
    outcomes = [by_epsilon, by_size]
    for outcome in outcomes:
        assert not outcome.failures
        assert "their epsilon is nominal" in " ".join(outcome.text.split())
    page = write_reproduction(outcomes, tmp_path / "page", settings=settings, shelf=shelf)
    with (page.parent / "table-dp-diabetes-auc.csv").open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["row"] == "here: statistics (default)"]
    assert [row["column"] for row in rows] == ["0.2", "0.5", "0.8", "1.0", "1.5", "2.0"]
    assert float(rows[-1]["mean"]) > 0.7
    with (page.parent / "table-dp-diabetes-seconds.csv").open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["row"].endswith("paper's noise")]
    # Its lemma holds up to epsilon = 1.
    assert [row["column"] for row in rows] == ["0.2", "0.5", "0.8", "1.0"]
    assert all(float(row["mean"]) > 0 for row in rows)


def test_private_tables_take_the_methods_and_the_protocol_that_they_have(tmp_path):
    settings, shelf = setup(
        tmp_path, datasets=(), methods=("statistics",), protocol="paper", n_splits=1
    )
    shelf._loaded = {"diabetes": fake("diabetes", 400)}
    (outcome,) = reproduce(["table-dp-diabetes"], settings, shelf)
    assert not outcome.failures
    assert "here: statistics" in outcome.text
    assert "here: Algorithm 3" not in outcome.text
    assert "'paper' is not for private tables" in " ".join(outcome.text.split())
    with pytest.raises(ValueError, match="no method 'olp' to choose"):
        list(reproduce(["table-dp-time"], replace(settings, methods=("olp",)), shelf))


def test_a_table_without_its_methods_is_refused_before_anything_is_run(tmp_path):
    settings, shelf = setup(tmp_path, methods=("ours",))
    with pytest.raises(ValueError, match=r"table-dp-time .* none of them was asked for"):
        next(reproduce(["table1", "table-dp-time"], settings, shelf))
    assert not settings.store.exists()
