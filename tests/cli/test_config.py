# SPDX-License-Identifier: BSD-3-Clause
"""Files of options are read or refused in one line."""

from __future__ import annotations

import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.cli.shared import config
from pairlearn.cli.shared.private_records import read_facts

HOSTILE = {
    "deep": (b"a = " + b"[" * 50_000 + b"]" * 50_000, "nested too deeply"),
    "a long key": (b"k" * 100_000 + b" = 1", "kkk"),
    "a long number": (b"passes = " + b"9" * 10_000, "is not TOML: Exceeds the limit"),
    "no UTF-8": (b"label = '\xff'", "is not TOML: 'utf-8' codec"),
    "no TOML": (b"label = ", "is not TOML: Invalid value"),
    "an end that does not come": (b" " * 200_000, "is longer than 150000 bytes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_short_line(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(config, "_LONGEST", 150_000)
    text, message = HOSTILE[name]
    path = tmp_path / "c.toml"
    path.write_bytes(text)
    assert run(program, ["train", "a.csv", "--config", str(path)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert len(err) < 1000
    with pytest.raises(ValueError, match=message) as error:
        read_facts(str(path))
    assert len(str(error.value)) < 1000


def test_two_files_are_refused(tmp_path, capsys, monkeypatch):
    """The first one was dropped without a word, with the columns that it left out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text('exclude = ["id"]\n')
    (tmp_path / "b.toml").write_text('label = "y"\n')
    command = ["train", "d.csv", "--config", "a.toml", "--config", "b.toml"]
    assert run(program, command) == 2
    assert "--config names 2 files; put all options into one" in capsys.readouterr().err
