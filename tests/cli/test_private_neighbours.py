# SPDX-License-Identifier: BSD-3-Clause
"""Two files that differ in one record: whatever the program shows of them is the same.

Everything is compared but the released numbers: exit status, what is printed, the files that are
written with their provenance and certificate, and the ledger. Numbers with a point or an exponent
are masked, since noise makes them; whole numbers, texts and names are not.
"""

import json
import re
import sys

import numpy as np
import pytest

from pairlearn import PrivacyLedger
from pairlearn.cli.private.records import Rows, read_rows
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.models import read_model

FACTS = """
label = "churned"
labels = ["no", "yes"]
{more}
[features]
age = [18, 100]
children = {{ bounds = [0, 4], levels = 5 }}
"""
HEADER = b"age,children,churned,who,plan"
#: One record in many forms. Each is one row; `{who}` is a person that nobody else is.
AWKWARD = {
    "another row": b"31.5,2,yes,{who},pro",
    "line end in quotes": b'"3\n1",2,yes,{who},pro',
    "forged rows in quotes": b'31,"2\n40,1,yes,a secret,pro\n50,1,no,p1,pro",no,{who},pro',
    "carriage return": b"31\r,2,yes\r,{who},pro",
    "nul": b"31\0,2,y\0es,{who},pro",
    "form feed and separators": "31\x0c,2\u2028,yes\x85\x1c,{who},pro".encode(),
    "quote that never closes": b'"31,2,yes,{who},pro',
    "quote inside": b'31,2"",ye"s,{who},"pro',
    "bytes that are no text": b"\xff\xfe\xe2\x82,2,yes\xc3,{who},\xf0",
    "utf-16": "31,2,yes,{who},pro".encode("utf-16"),
    "very long": b"1" * 200_000 + b",2," + b"z" * 200_000 + b",{who}," + b"w " * 50_000,
    "empty": b"",
    "fields missing": b"31",
    "fields too many": b"31,2,yes,{who},pro,a secret,7,8,9",
    "texts": b"a secret,a secret,a secret,{who},a secret",
    "formula": b"=1+1,@a,+yes,{who},-pro",
    "not finite": b"nan,-inf,yes,{who},inf",
    "huge": b"1e999,-1e308,yes," + b"{who}," + b"9" * 5000,
    "digits of others": "\u0663\u0661,1_000,yes,{who},1 000".encode(),
    "a header again": HEADER,
}
#: The floating-point numbers of a release, their digest, and labels that are predicted with them.
RELEASED = re.compile(
    r"\b[0-9a-f]{64}\b|[-+]?\d+\.\d+(e[-+]?\d+)?|[-+]?\d+e[-+]?\d+|(?<=#,#,)(yes|no)$", re.MULTILINE
)


def masked(text):
    text = re.sub(r"written \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "written then", text)
    # Twice: a label is known by the two numbers before it.
    return RELEASED.sub("#", RELEASED.sub("#", text))


def rows_of(record, place=7):
    """Return a file of 40 rows, one of which is the given record."""
    rng = np.random.default_rng(0)
    lines = [
        f"{a:.1f},{c},{('no', 'yes')[k]},p{i},{('pro', 'free')[k]}".encode()
        for i, (a, c, k) in enumerate(
            zip(
                rng.uniform(20, 90, 40), rng.integers(0, 5, 40), rng.integers(0, 2, 40), strict=True
            )
        )
    ]
    lines[place] = record.replace(b"{who}", b"somebody else")
    return b"\n".join([HEADER, *lines]) + b"\n"


def plain(value):
    """Return values of a model file or a certificate, with released numbers masked."""
    return masked(json.dumps(value, sort_keys=True, default=str))


class Folder:
    """A folder with the files of one of two neighbours, and what the program shows there."""

    def __init__(self, folder, record, monkeypatch, capsys):
        self.folder, self._capsys = folder, capsys
        monkeypatch.chdir(folder)
        (folder / "rows.csv").write_bytes(rows_of(record))
        (folder / "other.csv").write_bytes(rows_of(AWKWARD["another row"], 3))
        for name, more in (
            ("facts", ""), ("persons", 'person = "who"'), ("search", "private_bounds = true"),
            ("pairs", 'person = ["who", "plan"]'), ("lines", ""),
        ):  # fmt: skip
            more += "" if name == "lines" else "\nline_ends_in_fields = true"
            (folder / f"{name}.toml").write_text(FACTS.format(more=more))
        self.ledger = PrivacyLedger.open(folder / "ledger", epsilon=90.0, delta=1e-2)
        self.shown = []

    def run(self, *arguments):
        """Run a command and keep what it shows."""
        self._capsys.readouterr()
        status = run(program, [str(argument) for argument in arguments])
        said = self._capsys.readouterr()
        # In any order: that of the largest coefficients is released with them.
        words = sorted(re.split(r"[][{}\n, ]+", masked(said.out)))
        self.shown.append((arguments, status, words, masked(said.err)))
        return status

    def keep_files(self):
        """Keep the files that were written, and the entries of the ledger."""
        self.shown.append(sorted(path.name for path in self.folder.iterdir()))
        for path in sorted(self.folder.glob("*.safetensors")):
            record = read_model(path)
            arrays = sorted(record.arrays.items())
            shapes = [(name, a.shape, str(a.dtype)) for name, a in arrays]
            known = {k: v for k, v in record.provenance.items() if k != "created"}
            certificate = plain(record.certificate | {"digest": None})
            self.shown.append((path.name, shapes, plain(known), certificate))
        for path in sorted(self.folder.glob("*.json")):
            self.shown.append((path.name, masked(path.read_text())))
        for entry in self.ledger.entries:
            self.shown.append((entry.purpose, entry.mu, entry.neighbours))


PRIVATE = ("--private", "--epsilon", 1, "--delta", "1e-3", "--ledger", "ledger")


def observed(folder, record, monkeypatch, capsys, plain_model, last):
    """Return all that the private commands show of a file with this record.

    `last` are the facts that are tried last.
    """
    seen = Folder(folder, record, monkeypatch, capsys)
    for facts in ("facts", "persons", "search", last):
        # The ledger counts examples, so persons are not paid for from it.
        more = PRIVATE if facts != "persons" else (*PRIVATE[:-2], "--json")
        seen.run("train", "rows.csv", *more, "--bounds", f"{facts}.toml", "-o",
                 f"{facts}.safetensors")  # fmt: skip
    assert {status for _, status, *_ in seen.shown} == {0}
    for model in ("facts.safetensors", plain_model):
        assert seen.run("evaluate", model, "rows.csv", *PRIVATE, "--bounds", "facts.toml") == 0
    seen.run("evaluate", plain_model, "rows.csv", *PRIVATE, "--bounds", f"{last}.toml", "--json")
    for arguments in (
        ("predict", "facts.safetensors", "other.csv"),
        ("inspect", "facts.safetensors"),
        ("inspect", "persons.safetensors", "--json"),
        ("privacy", "certify", "persons.safetensors"),
        ("train", "rows.csv", *PRIVATE, "--bounds", "absent.toml"),
        ("evaluate", "facts.safetensors", "rows.csv", *PRIVATE, "--set", "reading.strict=true"),
    ):
        seen.run(*arguments)
    # Over the budget, and without a line of names.
    seen.run("train", "rows.csv", *PRIVATE[:2], 1000, *PRIVATE[3:], "--bounds", "facts.toml")
    named = (folder / "rows.csv").read_bytes()
    (folder / "bare.csv").write_bytes(b"x" + record + b"\n" + named.partition(b"\n")[2])
    seen.run("train", "bare.csv", *PRIVATE, "--bounds", "facts.toml")
    seen.run("evaluate", "facts.safetensors", "bare.csv", *PRIVATE)
    seen.keep_files()
    return seen.shown


@pytest.fixture(scope="module")
def plain_model(tmp_path_factory):
    """Return a model of plain train, with a column of categories."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "open.csv").write_bytes(rows_of(b"31.5,2,yes,p7,pro"))
    path = folder / "plain.safetensors"
    arguments = ["train", folder / "open.csv", "--label", "churned", "--exclude", "who", "-o", path]
    assert run(program, [*map(str, arguments)]) == 0
    return path


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys, plain_model):
    """Return a function that says what one record changes."""

    def shown(name, record, last):
        folder = tmp_path / name
        folder.mkdir()
        found = observed(folder, record, monkeypatch, capsys, plain_model, last)
        found = [json.dumps(one, default=str).replace(str(folder), "FOLDER") for one in found]
        assert not any("a secret" in one for one in found)
        return found

    usual = {last: shown(last, b"77.5,0,no,{who},free", last) for last in ("lines", "facts")}

    def differences(kind):
        # A record of several lines is none where each line is a row.
        last = "facts" if b"\n" in AWKWARD[kind] else "lines"
        found = shown(kind.replace(" ", "_"), AWKWARD[kind], last)
        return [(a, b) for a, b in zip(usual[last], found, strict=True) if a != b]

    return differences


QUICK = ("forged rows in quotes", "quote that never closes", "huge")

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")


def test_nothing_of_a_record_shows(compare):
    for kind in QUICK:
        assert compare(kind) == [], kind


@pytest.mark.slow
def test_nothing_of_any_awkward_record_shows(compare):
    for kind in AWKWARD.keys() - set(QUICK):
        assert compare(kind) == [], kind


def say_how_many(rows):
    """Say how many cells are no numbers."""
    wrong = sum(not str(row[0]).replace(".", "").isdigit() for row in rows.X)
    print(f"{wrong} cells are no numbers", file=sys.stderr)
    return rows


def leave_out(rows):
    """Leave out what cannot be read."""
    kept = [k for k, label in enumerate(rows.y) if label in ("yes", "no")]
    persons = rows.persons and [rows.persons[k] for k in kept]
    return Rows([rows.X[k] for k in kept], [rows.y[k] for k in kept], persons)


def quote(rows):
    """Raise an error that quotes a label."""
    for label in rows.y:
        if label not in ("yes", "no"):
            raise ValueError(f"the label {label!r} is not known.")
    return rows


@pytest.mark.parametrize("spoiled", [say_how_many, leave_out, quote])
def test_the_comparison_sees_what_a_careless_program_shows(compare, monkeypatch, spoiled):
    def careless(path, facts):
        return spoiled(read_rows(path, facts))

    monkeypatch.setattr("pairlearn.cli.private.commands.read_rows", careless)
    try:
        seen = compare("texts")
    except AssertionError:
        return  # A command failed that must not.
    assert seen != []
