# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn rate``: tables of votes in, ratings out, and one line for what is wrong."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from pairlearn import PairwiseRatings, PrivateRatings, load_model
from pairlearn.cli.program import program
from pairlearn.cli.running import run

VOTES = "winner,loser,judge\nann,bob,1\nann,cid,1\nbob,cid,2\ncid,bob,2\nbob,ann,3\nann,bob,3\n"
BATTLES = (
    "model_a,model_b,winner,user\nann,bob,model_a,u\nann,cid,tie,u\nbob,cid,model_b,v\n"
    "cid,bob,tie (bothbad),v\nbob,ann,model_a,w\nann,bob,model_a,w\n"
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.csv").write_text(VOTES)
    (tmp_path / "battles.csv").write_text(BATTLES)
    return tmp_path


def rate(capsys, *arguments):
    status = run(program, ["rate", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_table(capsys):
    status, out, err = rate(capsys, "votes.csv")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["player", "score", "95", "%", "ranks", "votes"]
    assert [line.split()[:2] for line in lines[1:4]] == [["1", "ann"], ["2", "bob"], ["3", "cid"]]
    assert lines[-1] == "6 votes on 3 players"


def test_json_is_what_the_library_says(capsys):
    arguments = ["--a", "model_a", "--b", "model_b", "--outcome", "winner", "--by", "user"]
    status, out, _ = rate(capsys, "battles.csv", *arguments, "--home", "--json")
    assert status == 0
    found = json.loads(out)
    rows = [line.split(",") for line in BATTLES.splitlines()[1:]]
    a, b, winner, user = zip(*rows, strict=True)
    model = PairwiseRatings(home=True).fit(a, b, winner, groups=user)
    assert (found["votes"], found["judges"]) == (6, 3)
    for entry in found["players"]:
        one = model.intervals()[entry["player"]]
        assert (entry["score"], entry["low"], entry["high"]) == (one.value, one.low, one.high)
        assert entry["rank"] == list(model.rank_intervals()[entry["player"]])
    assert found["effects"]["home"]["value"] == model.home_
    assert found["effects"]["tie"]["value"] == model.tie_
    assert [entry["votes"] for entry in found["players"]] != [0, 0, 0]


def test_weights_and_several_files(capsys, here):
    rows = [line.split(",")[:2] for line in VOTES.splitlines()[1:]]
    text = "".join(f"{a},{b},{k}\n" for k, (a, b) in enumerate(rows))
    (here / "weighted.csv").write_text("winner,loser,n\n" + text)
    (here / "once.csv").write_text(
        "winner,loser\n" + "".join(f"{a},{b}\n" * k for k, (a, b) in enumerate(rows))
    )
    one = json.loads(rate(capsys, "weighted.csv", "--weight", "n", "--json")[1])
    other = json.loads(rate(capsys, "once.csv", "--json")[1])
    assert one["players"] == other["players"]
    twice = json.loads(rate(capsys, "votes.csv", "votes.csv", "--json")[1])
    assert twice["votes"] == 12


def test_rows_that_are_no_votes_are_counted(capsys, here):
    (here / "odd.csv").write_text(VOTES + "ann,ann,1\n,bob,1\nbob,,2\nann,bob,\n")
    status, out, err = rate(capsys, "odd.csv", "--by", "judge")
    assert status == 0
    assert "6 votes by 3 judges on 3 players" in out
    assert err == "pairlearn: 4 rows refused; first: odd.csv:8: 'ann' stands on both sides\n"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", [], "votes.csv is empty"),
        ("winner,loser\n", [], "holds no vote that can be used"),
        ("winner,loser\nann,ann\n", [], "holds no vote that can be used (1 row refused"),
        ("x,y\nann,bob\n", [], "neither the columns winner and loser nor a, b and outcome"),
        (VOTES, ["--by", "juge"], "votes.csv has no column 'juge'; did you mean 'judge'?"),
        (VOTES, ["--winner", "winner"], "--winner needs --loser too"),
        (VOTES, ["--winner", "winner", "--a", "b"], "give --winner and --loser, or --a, --b and"),
        (VOTES, ["--winner", "winner", "--loser", "loser", "--home"], "--home needs --a, --b and"),
        (VOTES, ["--home"], "--home needs to know who was named first"),
        ("a,b,outcome\nann,bob,1\nann,bob,ann\n", [], "votes.csv:3: the outcome 'ann' is unknown"),
        ("a,b,outcome\nann,bob,tie\n", [], "all votes are ties"),
        ("winner,loser,n\nann,bob,x\n", ["--weight", "n"], "the weight 'x' is no number"),
        (VOTES, ["--prior", "0"], None),
        ("winner,loser\nann,bob\n", ["--prior", "0"], "with --prior 0 the ratings are not finite"),
        (VOTES, ["-o", "votes.csv"], "is a file that the command reads"),
        (VOTES, ["--confidence", "1"], "--confidence"),
        (VOTES, ["--format", "svmlight"], "svmlight, which has no named columns"),
    ],
)
def test_one_line_for_what_is_wrong(capsys, here, text, arguments, message):
    (here / "votes.csv").write_text(text)
    status, out, err = rate(capsys, "votes.csv", *arguments)
    if message is None:
        assert (status, err) == (0, "")
        return
    assert status in (1, 2)
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", [["predict"], ["evaluate", "--label", "winner"]])
def test_other_commands_say_that_ratings_score_no_rows(capsys, command):
    assert rate(capsys, "votes.csv", "-o", "m.safetensors")[0] == 0
    name, *options = command
    assert run(program, [name, "m.safetensors", "votes.csv", *options]) == 1
    assert "ratings of players, which have no score for a row" in capsys.readouterr().err


def test_report_is_one_page_with_its_numbers(capsys, here):
    arguments = ["--a", "model_a", "--b", "model_b", "--outcome", "winner"]
    status, out, err = rate(capsys, "battles.csv", *arguments, "--report", "page")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == f"page: {Path('page') / 'index.html'}"
    page = (here / "page" / "index.html").read_text()
    assert page.count("<img") >= 2
    # Nothing is fetched from elsewhere: pictures are inside, and links lead to files beside it.
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    rows = [line.split(",") for line in BATTLES.splitlines()[1:]]
    a, b, winner, _ = zip(*rows, strict=True)
    model = PairwiseRatings().fit(a, b, winner)
    with (here / "page" / "players.csv").open(newline="") as file:
        listed = list(csv.DictReader(file))
    assert [one["player"] for one in listed] == list(model.intervals())
    assert [float(one["low"]) for one in listed] == [i.low for i in model.intervals().values()]
    with (here / "page" / "win-rates.csv").open(newline="") as file:
        rates = {one["player"]: one for one in csv.DictReader(file)}
    # ann won two of three against bob, counted by hand.
    assert float(rates["ann"]["bob"]) == pytest.approx(2 / 3)
    assert rates["ann"]["ann"] == ""
    assert "Davidson" in page


def test_inspect_prints_the_first_players_only(capsys, here):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 300, (2, 4000))
    lines = [f"player {x:03},player {y:03},{x % 9}" for x, y in zip(a, b, strict=True) if x != y]
    (here / "many.csv").write_text("\n".join(["winner,loser,judge", *lines]) + "\n")
    assert rate(capsys, "many.csv", "--by", "judge", "-o", "m.safetensors")[0] == 0
    best = list(load_model("m.safetensors").intervals())
    assert run(program, ["inspect", "m.safetensors", "--top", "4"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"player \d{3}", out) == best[:4]
    assert f"{len(best)} players, {len(lines)} votes, 9 judges" in out
    assert run(program, ["inspect", "m.safetensors", "--top", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["ratings"]
    assert [one["player"] for one in found["players"]] == best[:2]
    assert found["n_players"] == len(best)
    assert run(program, ["inspect", "m.safetensors", "--top", "0"]) == 0
    assert "player 0" not in capsys.readouterr().out


def test_inspect_of_private_ratings(capsys):
    model = PrivateRatings(1.0, 1e-6, players=["ann", "bob", "cid"])
    model.fit(["ann"] * 500, ["bob"] * 500).save("p.safetensors")
    assert run(program, ["inspect", "p.safetensors", "--top", "1"]) == 0
    out = capsys.readouterr().out
    assert "3 players" in out
    assert "highest scores:\n  ann  " in out
    assert "players: [" not in out


def test_gaps_are_no_players_and_whole_numbers_have_no_point(capsys, here):
    text = "winner,loser\na,b\nb,a\na,NaN\na,N/A\nNULL,b\n1.0,2\n2.0,a\nGPT 4.0,a\na,GPT 4.0\nb,1\n"
    (here / "votes.csv").write_text(text)
    status, out, err = rate(capsys, "votes.csv", "--json")
    assert status == 0
    players = {player["player"] for player in json.loads(out)["players"]}
    assert players == {"a", "b", "1", "2", "GPT 4.0"}
    assert "3 rows refused; first: votes.csv:4: a player has no name" in err
    (here / "votes.csv").write_text("winner,loser,winner\na,b,c\nb,a,c\n")
    status, _, err = rate(capsys, "votes.csv")
    assert status == 1
    assert "more than one column named 'winner'; rename all but the one to use" in err
