# SPDX-License-Identifier: BSD-3-Clause
"""`examples/story.py`, which `make demo` runs."""

import csv
import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib")

SPEC = importlib.util.spec_from_file_location(
    "story", Path(__file__).parents[2] / "examples" / "story.py"
)
story = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(story)


@pytest.mark.thorough
def test_a_chapter(tmp_path, capsys):
    assert story.main(["--only", "metric", "--report", str(tmp_path), "--seed", "0"]) == 0
    said = capsys.readouterr().out
    with (tmp_path / "metric.csv").open(newline="") as lines:
        rows = {row["distance"]: float(row["test accuracy"]) for row in csv.DictReader(lines)}
    assert rows["learned"] > rows["Euclidean"] + 0.1
    assert f"{100 * rows['learned']:.0f} % in the learned one" in said
    page = (tmp_path / "index.html").read_text()
    assert "python examples/story.py --only metric --seed 0" in page
    assert "Accuracy of three nearest neighbours" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", story.CHAPTERS)
def test_every_chapter(name, tmp_path):
    said = []
    page = story.tell(tmp_path, only=[name], say=said.append).read_text()
    assert said[0].split(": ")[0] in page
