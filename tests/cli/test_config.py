# SPDX-License-Identifier: BSD-3-Clause
"""Files of options are read or refused in one line."""

from __future__ import annotations

import pytest

from pairlearn.cli.private.records import read_facts
from pairlearn.cli.program import program
from pairlearn.cli.running import run

HOSTILE = {
    "deep": (b"a = " + b"[" * 50_000 + b"]" * 50_000, "is not TOML"),
    "a long key": (b"k" * 100_000 + b" = 1", "kkk"),
    "a long number": (b"passes = " + b"9" * 10_000, "is not TOML: Exceeds the limit"),
    "no UTF-8": (b"label = '\xff'", "is not TOML: 'utf-8' codec"),
    "no TOML": (b"label = ", "is not TOML: Invalid value"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_short_line(name, tmp_path, capsys):
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
