# SPDX-License-Identifier: BSD-3-Clause
"""Mutants are found, tried and explained; a weak test lets one live, a good one kills it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutants.__main__ import EXPLAINED, Explained, main, matches
from mutants.sites import ROOMS, in_order, sites_of

ROOT = Path(__file__).parents[2]
PATH = "src/pairlearn/metrics/part.py"

SOURCE = '''
"""A text with 1 number."""

LIMIT: float = 3.0


@decorated(level=4)
def share(wins: int, total: "int" = 5, *, strict: bool = True) -> float:
    """Return a share of 2 numbers."""
    if not wins <= total:
        raise ValueError(f"wins must be at most {total + 1}.")
    warn("a number: 7", stacklevel=2)
    text = f"{wins + 1}" + " of 9"
    return -max(wins, 0) / (total
                            + 1e-9)


class Kept:
    half = 0.5

    def __repr__(self):
        return str(1 + 1)

    def ask(self, x):
        return [x and self for x in x if x is not None or x == "é" or x > 1]
'''


def changes(source, scope=None):
    return [s.change for s in sites_of(PATH, source) if scope is None or s.scope == scope]


def test_finds_numbers_signs_and_comparisons_but_no_words():
    assert changes(SOURCE, "") == ["3.0 -> 6.0"]
    assert changes(SOURCE, "share") == [
        "5 -> 6", "True -> False", "not  -> ", "<= -> <", "<= -> >", "/ -> *", "- -> +",
        "max -> min", "0 -> 1", "+ -> -", "1e-9 -> 1e-06",
    ]  # fmt: skip
    assert changes(SOURCE, "Kept") == ["0.5 -> 1.0"]
    assert changes(SOURCE, "Kept.__repr__") == []
    assert changes(SOURCE, "Kept.ask") == [
        "and -> or", "or -> and", "or -> and", "is not -> is", "== -> !=", "> -> >=", "> -> <=",
        "1 -> 2",
    ]  # fmt: skip


def test_a_change_is_one_word_of_one_line_and_can_be_compiled():
    before = SOURCE.splitlines()
    for site in sites_of(PATH, SOURCE):
        after = site.apply(SOURCE).splitlines()
        assert [i + 1 for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [
            site.line
        ]
        compile("\n".join(after), PATH, "exec")
    assert any('x == "é" or x >= 1]' in s.apply(SOURCE) for s in sites_of(PATH, SOURCE))
    with pytest.raises(ValueError, match="the file has changed"):
        sites_of(PATH, SOURCE)[0].apply("\n" + SOURCE)


def test_what_runs_on_import_is_told_from_what_runs_in_a_function():
    outside = {s.change for s in sites_of(PATH, SOURCE) if not s.first_line}
    assert outside == {"3.0 -> 6.0", "5 -> 6", "True -> False", "0.5 -> 1.0"}
    decorator = SOURCE.splitlines().index("@decorated(level=4)") + 1
    assert {s.first_line for s in sites_of(PATH, SOURCE) if s.scope == "share"} == {0, decorator}


def test_an_edit_leaves_the_order_of_other_mutants(tmp_path):
    path = tmp_path / PATH
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE, encoding="utf-8")
    before = [s.key for s in in_order(tmp_path, ["metrics"], 0)]
    assert len(set(before)) == len(before)
    path.write_text(SOURCE.replace("half = 0.5", "more = 'word'\n    half = 0.25"), "utf-8")
    after = [s.key for s in in_order(tmp_path, ["metrics"], 0)]
    assert [k for k in before if k in after] == [k for k in after if k in before]
    assert len(set(before) & set(after)) == len(before) - 1
    assert [s.key for s in in_order(tmp_path, ["metrics"], 1)] != after


def test_every_reason_speaks_of_a_line_that_is_there():
    sites = in_order(ROOT, ROOMS, 0)
    for entry in Explained.load(EXPLAINED).entries:
        assert set(entry) <= {"path", "scope", "line", "change", "reason"}
        assert len(entry["reason"].split()) >= 3, entry
        assert any(matches(entry, site) for site in sites), entry


def test_lists_and_shows(capsys):
    assert main(["--only", "theory", "--number", "2", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["0", "1"]
    assert all("src/pairlearn/theory/" in line for line in lines)
    for wrong in (["--only", "cellar"], ["--number", "0"], ["--first", "-1"]):
        with pytest.raises(SystemExit):
            main(wrong)
    assert "--only takes privacy" in capsys.readouterr().err


PLANTED = """
LIMIT = 3


def share(wins, total):
    return (wins + 1) / (total + 2)


def capped(x):
    '''Return a number that is not too large; pytest loads this file for the example.

    >>> capped(2)
    2
    '''
    return min(x, LIMIT)
"""
GOOD = """
from pairlearn.metrics.part import capped, share


def test_share():
    assert share(1, 2) == 0.5
    assert share(0, 0) == 0.5
    assert share(4, 4) == 5 / 6


def test_capped():
    assert capped(1) == 1
"""


@pytest.mark.thorough
def test_a_weak_test_lets_a_mutant_live_and_a_good_one_kills_it(tmp_path):
    for name, text in {
        "src/pairlearn/__init__.py": "",
        "src/pairlearn/metrics/__init__.py": "",
        PATH: PLANTED,
        "tests/metrics/test_part.py": GOOD,
        "explained.toml": "",
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib '
        '--doctest-modules"\n',
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    def run():
        return subprocess.run(
            [sys.executable, "-m", "mutants", "--only", "metrics", "--root", str(tmp_path),
             "--explained", str(tmp_path / "explained.toml")],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip

    first = run()
    assert first.returncode == 1, first.stdout + first.stderr
    assert "| metrics | 7 | 6 | 0 | 1 |" in first.stdout
    survivors = [line for line in first.stdout.splitlines() if line.startswith("survived:")]
    assert len(survivors) == 1
    assert "3 -> 4 in `LIMIT = 3`" in survivors[0]

    better = GOOD + "    assert capped(9) == 3\n"
    (tmp_path / "tests/metrics/test_part.py").write_text(better, encoding="utf-8")
    second = run()
    assert second.returncode == 0, second.stdout + second.stderr
    assert "; 1 to try." in second.stdout
    assert "| metrics | 7 | 7 | 0 | 0 |" in second.stdout
    results = (tmp_path / "build/mutants/results.jsonl").read_text("utf-8").splitlines()
    assert len([json.loads(line) for line in results]) == 8
