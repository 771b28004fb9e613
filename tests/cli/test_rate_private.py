# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn rate --private``: noise in the table, a certificate beside it, no word on a row."""

import json

import numpy as np
import pytest

from pairlearn import load_model
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.privacy import Certificate, PrivacyLedger, accounting_problems

PLAYERS = [f"p{k}" for k in range(8)]
PROMISE = ["--private", "--epsilon", "1", "--delta", "1e-6", "--players", "players.txt"]


def rows():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 8, (2, 20_000))
    a, b = a[a != b], b[a != b]
    won = rng.random(len(a)) < 1 / (1 + np.exp(0.4 * (b - a)))
    winner, loser = np.where(won, a, b), np.where(won, b, a)
    return [f"p{w},p{v},judge {k // 4}" for k, (w, v) in enumerate(zip(winner, loser, strict=True))]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.csv").write_text("\n".join(["winner,loser,judge", *rows()]) + "\n")
    (tmp_path / "players.txt").write_text("\n".join(PLAYERS) + "\n")
    return tmp_path


def rate(capsys, *arguments):
    status = run(program, ["rate", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_votes(capsys, here):
    status, out, err = rate(capsys, "votes.csv", *PROMISE)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    # Scores 0.4 apart with errors near 0.03: the order is right but once in many millions.
    assert [line.split()[1] for line in lines[1:9]] == PLAYERS[::-1]
    assert "(1, 1e-06)-differentially private with respect to one vote replaced" in out
    plain = json.loads((here / "votes.certificate.json").read_text())
    assert "one example replaced" in plain.pop("statement")
    certificate = Certificate.from_dict(plain)
    assert accounting_problems(certificate) == []
    assert certificate.public["rows"] == "one for each line of a CSV file"


@pytest.mark.parametrize("words", [("win", "loss"), ("True", "False"), ("true", "false")])
def test_who_won_may_be_a_truth_value(capsys, here, words):
    lines = [line.split(",") for line in rows()]
    votes = [[a, b, words[0]] if k % 2 else [b, a, words[1]] for k, (a, b, _) in enumerate(lines)]
    (here / "outcomes.csv").write_text("\n".join(map(",".join, [["a", "b", "outcome"], *votes])))
    status, out, err = rate(capsys, "outcomes.csv", *PROMISE)
    assert (status, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()[1:9]] == PLAYERS[::-1]


def test_judges_with_model_and_page(capsys, here):
    ledger = PrivacyLedger.open("budget.json", epsilon=1.2, delta=1e-6, unit="person")
    arguments = [*PROMISE, "--by", "judge", "--votes-per-judge", "4", "--ledger", "budget.json",
                 "--json", "--report", "page", "-o", "m.safetensors"]  # fmt: skip
    status, out, err = rate(capsys, "votes.csv", *arguments)
    assert status == 0, err
    found = json.loads(out)
    # How many votes there are is no public fact, only how many judges.
    assert (found["votes"], found["judges"]) == (None, -(-len(rows()) // 4))
    model = load_model("m.safetensors")
    assert model.certificate_.unit == "person"
    assert {one["player"]: one["score"] for one in found["players"]} == dict(
        zip(model.players_.tolist(), model.scores_.tolist(), strict=True)
    )
    page = (here / "page" / "index.html").read_text()
    assert "one judge with all votes replaced" in page
    assert not (here / "page" / "win-rates.csv").exists()  # no votes of pairs were released
    assert len(ledger.entries) == 1
    again = rate(capsys, "votes.csv", *arguments)
    assert again[0] == 1
    assert "pairlearn: " in again[2]
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("output", [["-o", "nowhere/m"], ["--report", "votes.csv/page"]])
def test_nothing_is_paid_for_what_cannot_be_written(capsys, here, output):
    ledger = PrivacyLedger.open("budget.json", epsilon=2.0, delta=1e-5)
    status, out, _ = rate(capsys, "votes.csv", *PROMISE, "--ledger", "budget.json", *output)
    assert status in (1, 2)
    assert out == ""
    assert ledger.entries == ()


def test_a_strange_row_is_left_out_without_a_word(capsys, here):
    odd = ["p0,nobody,x", "p1,p1,x", ",,", '"p0', "p0", "p0,p1,", "\0,\xff,é,more,fields"]
    (here / "votes.csv").write_text("\n".join(["winner,loser,judge", *odd, *rows()]) + "\n")
    status, out, err = rate(capsys, "votes.csv", *PROMISE, "--by", "judge",
                            "--votes-per-judge", "2")  # fmt: skip
    assert (status, err) == (0, "")
    assert "nobody" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (PROMISE[:-2], "--private needs --players"),
        ([*PROMISE, "--by", "judge"], "--by needs --votes-per-judge"),
        ([*PROMISE, "--votes-per-judge", "2"], "--votes-per-judge needs --by"),
        ([*PROMISE, "--home"], "--home has no effect with --private"),
        ([*PROMISE, "--weight", "judge"], "--weight has no effect with --private"),
        (["--players", "players.txt"], "--players belongs to --private"),
        (["--epsilon", "1"], "--epsilon belongs to --private"),
        ([*PROMISE[:3], *PROMISE[5:]], "--private needs --delta"),
        ([*PROMISE, "--a", "x", "--b", "y", "--outcome", "z"], "does not name each of the columns"),
        ([*PROMISE[:-1], "one.txt"], "two different names"),
        ([*PROMISE[:-1], "twice.txt"], "two different names"),
    ],
)
def test_one_line_for_what_is_wrong(capsys, here, arguments, message):
    (here / "one.txt").write_text("p\n")
    (here / "twice.txt").write_text("p\nq\np\n")
    status, out, err = rate(capsys, "votes.csv", *arguments)
    assert status != 0
    assert message in err
    assert out == ""
    assert not (here / "votes.certificate.json").exists()


def test_a_player_may_have_the_name_of_an_outcome_if_outcomes_are_numbers(capsys, here):
    names = ["draw", "b", "a"]
    (here / "players.txt").write_text("\n".join(names) + "\n")
    rng = np.random.default_rng(1)
    votes = ["a,b,outcome"]
    for _ in range(3_000):
        low, high = sorted(rng.choice(3, 2, replace=False))
        votes.append(f"{names[high]},{names[low]},{int(rng.random() < 0.8)}")
    (here / "outcomes.csv").write_text("\n".join(votes) + "\n")
    status, out, err = rate(capsys, "outcomes.csv", *PROMISE)
    # Scores about 1.4 apart with errors below 0.1.
    assert [line.split()[1] for line in out.splitlines()[1:4]] == names[::-1]
    assert status == 0
    assert "the player 'draw' has the name of an outcome, so that only 1, 0.5 and 0 count" in err
    public = json.loads((here / "outcomes.certificate.json").read_text())["public"]
    assert public["outcomes"] == "1, 0.5 and 0 alone: a player is called 'draw'"
