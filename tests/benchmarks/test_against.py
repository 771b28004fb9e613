# SPDX-License-Identifier: BSD-3-Clause
"""Two versions side by side: what is matched, what counts as slower, and folders of their own."""

import shutil
import subprocess

import pytest
from benchmarks.against import Pair, compare, extracted, table
from benchmarks.report import UnavailableError

#: A benchmark program that writes one row: its time, and one row of its own.
PROGRAM = """
import json, sys
from thing import TIME
place = sys.argv[sys.argv.index("--json") + 1]
name = sys.argv[sys.argv.index("--only") + 1]
if name == "bad":
    sys.exit("no such thing")
rows = [
    {{"name": name, "unit": "us", "ours": TIME, "rival": 8.0}},
    {{"name": "{extra}", "unit": "us", "ours": 1.0, "rival": 1.0}},
]
open(place, "w").write(json.dumps({{"rows": rows, "skipped": {{}}, "broken": {{}}}}))
"""


def test_slower_needs_both():
    def pair(there, here):
        return Pair("a", "us", there, here)

    assert pair((1.0, 2.0), (1.5, 2.0)).is_slower
    assert pair((1.0, 2.0), (1.5, 2.0)).change == pytest.approx(1.5)
    assert not pair((1.0, 2.0), (1.5, 3.0)).is_slower  # the whole machine was slower
    assert not pair((1.0, 2.0), (1.1, 2.0)).is_slower
    assert not pair(None, (1.5, 2.0)).is_slower
    assert pair(None, (1.5, 2.0)).change is None


@pytest.fixture
def repository(tmp_path):
    """Return a repository with two versions of a package: 2 us in the commit, 5 us here."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def git(*words):
        own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *own, *words], check=True, capture_output=True)

    def write(time, extra):
        for folder in ("src", "benchmarks"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "src" / "thing.py").write_text(f"TIME = {time}\n")
        (tmp_path / "benchmarks" / "__init__.py").write_text("")
        (tmp_path / "benchmarks" / "__main__.py").write_text(PROGRAM.format(extra=extra))

    git("init", "-q")
    write(2.0, "old")
    git("add", "-A")
    git("commit", "-qm", "first")
    write(5.0, "new")
    return tmp_path


def test_each_side_runs_its_own_package(repository):
    pairs, broken = compare("HEAD", ["one"], quick=True, rounds=2, root=repository)
    assert not broken
    assert [(pair.name, pair.there, pair.here) for pair in pairs] == [
        ("one", (2.0, 8.0), (5.0, 8.0)),
        ("new", None, (1.0, 1.0)),
        ("old", (1.0, 1.0), None),
    ]
    assert pairs[0].is_slower
    assert table("HEAD", pairs).row_count == 3


def test_what_breaks_is_told(repository):
    pairs, broken = compare("HEAD", ["bad"], quick=False, rounds=1, root=repository)
    assert not pairs
    assert set(broken) == {"bad, there", "bad, here"}
    assert "no such thing" in broken["bad, there"]


def test_the_folder_goes_away(repository):
    with extracted("HEAD", repository) as folder:
        assert (folder / "src" / "thing.py").read_text() == "TIME = 2.0\n"
    assert not folder.exists()


def test_an_unknown_commit_is_refused(repository):
    with (
        pytest.raises(UnavailableError, match="needs a commit of the repository"),
        extracted("nothing", repository),
    ):
        pass
