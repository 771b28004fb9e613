# SPDX-License-Identifier: BSD-3-Clause
"""What several tests of the program start from."""

import math

import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table and a model."""
    folder = tmp_path_factory.mktemp("made")
    rows = (f"{math.sin(k)},{math.cos(3 * k)},{int(math.sin(k + 0.4) > 0)}\n" for k in range(60))
    (folder / "d.csv").write_text("a,b,y\n" + "".join(rows))
    arguments = ["train", folder / "d.csv", "--label", "y", "-o", folder / "m"]
    assert run(program, [str(a) for a in arguments]) == 0
    return folder
