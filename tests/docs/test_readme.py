# SPDX-License-Identifier: BSD-3-Clause
"""The first screen: short, and the program prints what it shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pairlearn.cli.program import program
from pairlearn.cli.running import run

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"\d*\.\d+|\d+")


def console():
    """Return commands and what they print."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```console\n(.*?)^```", text, re.S | re.M)[1]
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def test_the_first_screen_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    # who it is for stands before anything else, the command within the first screen
    assert any("pairlearn train" in line for line in lines[:15])


def test_the_program_prints_what_the_first_screen_shows(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    (train, shown), (predict, first) = console()
    for command, expected in ((train, shown), (predict.removesuffix(" | head -3"), first)):
        assert run(program, command.split()[1:]) == 0
        printed = capsys.readouterr().out.splitlines()[: expected.count("\n")]
        for ours, theirs in zip(printed, expected.splitlines(), strict=True):
            # words to the letter, numbers to what another processor may change
            assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
            pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
            assert all(abs(float(a) - float(b)) <= 0.02 * (1 + abs(float(b))) for a, b in pairs)
