# SPDX-License-Identifier: BSD-3-Clause
import csv
import html

import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib")

from pairlearn.experiments.story import CHAPTERS, tell


@pytest.mark.thorough
def test_chapters_conclude_from_their_numbers(tmp_path):
    said = []
    page = tell(tmp_path, only=["metric", "private"], say=said.append)
    text = page.read_text()
    assert len(said) == 2
    with (tmp_path / "metric.csv").open(newline="") as lines:
        rows = {row["distance"]: float(row["test accuracy"]) for row in csv.DictReader(lines)}
    assert rows["learned"] > rows["Euclidean"] + 0.1
    assert rows["learned"] >= rows["Euclidean, scaled features"]
    assert f"{100 * rows['learned']:.0f} % in the learned one" in said[0]
    with (tmp_path / "private.csv").open(newline="") as lines:
        aucs = {row["model"]: float(row["test AUC"]) for row in csv.DictReader(lines)}
    for epsilon in ("0.5", "1", "4"):
        assert f"{aucs[f'epsilon {epsilon}']:.3f} at epsilon {epsilon}" in said[1]
    assert "private: False" in text  # a seeded demonstration promises nothing, and says so
    assert "pairlearn demo --only private --seed 0" in text


def test_the_program_names_the_chapters(capsys):
    from pairlearn.cli.program import program
    from pairlearn.cli.running import run

    assert run(program, ["demo", "--only", "none"]) == 2
    err = capsys.readouterr().err
    for name in CHAPTERS:
        assert name in err
    assert run(program, ["demo", "--help"]) == 0
    out = capsys.readouterr().out
    for name in CHAPTERS:
        assert name in out


def short(folder, seed):
    return "A title", "A conclusion.", []


def test_a_chapter_asked_for_twice_is_told_once_and_the_page_says_its_command(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(CHAPTERS, "metric", short)
    said = []
    text = tell(tmp_path, only=["metric", "metric"], seed=3, say=said.append).read_text()
    assert len(said) == 1
    assert text.count("pairlearn demo --only metric --seed 3") == 2  # of the chapter, of the page
    assert "pairlearn demo --seed 3" not in text


def test_a_store_of_others_is_no_error_of_the_program(tmp_path, capsys):
    from pairlearn.cli.program import program
    from pairlearn.cli.running import run

    (tmp_path / "results.sqlite").write_text("mine")
    assert run(program, ["demo", "--only", "paper", "--report", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "not a store of results" in err
    assert "internal error" not in err
    assert (tmp_path / "results.sqlite").read_text() == "mine"


@pytest.mark.parametrize("command", ["demo", "compare", "train x.csv", "bounds stability"])
def test_a_negative_seed_is_refused_as_an_option(command, capsys):
    from pairlearn.cli.program import program
    from pairlearn.cli.running import run

    assert run(program, [*command.split(), "--seed", "-1"]) == 2
    assert "'--seed': -1 is not in the range" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAPTERS)
def test_every_chapter(name, tmp_path):
    said = []
    text = html.unescape(tell(tmp_path, only=[name], say=said.append).read_text())
    # a title, which may have a colon of its own, and a conclusion
    for part in said[0].split(": "):
        assert part.split("`")[0][:40] in text
