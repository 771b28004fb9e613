# SPDX-License-Identifier: BSD-3-Clause
import errno
import json
import os
import pickle
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone

from pairlearn import PrivateAUCClassifier
from pairlearn.cli.privacy import command
from pairlearn.cli.program import program
from pairlearn.cli.running import run as run_program
from pairlearn.privacy.accounting import ledger_file
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger
from pairlearn.privacy.accounting.ledger_file import LedgerFileError


def opened(path, **facts):
    return PrivacyLedger.open(path, **({"epsilon": 1.0, "delta": 1e-5} | facts))


def test_is_a_ledger_that_stays(tmp_path):
    path = tmp_path / "ledger"
    ledger = opened(path, data="patients 2026", neighbours="add_remove")
    ledger.spend("first", mu=0.1, neighbours="add_remove")
    again = PrivacyLedger.open(path)
    assert (again.epsilon, again.delta, again.data) == (1.0, 1e-5, "patients 2026")
    assert again.neighbours == "add_remove"
    assert again.entries == ledger.entries
    assert again.entries[0].time.startswith("20")
    again.spend("second", mu=0.1, neighbours="add_remove")
    # The first object sees what the second has entered.
    assert [entry.purpose for entry in ledger.entries] == ["first", "second"]
    assert ledger.spent_epsilon == again.spent_epsilon
    with pytest.raises(BudgetExceededError):
        ledger.spend("third", mu=0.3, neighbours="add_remove")
    assert PrivacyLedger.from_dict(ledger.to_dict()).spent_epsilon == ledger.spent_epsilon
    assert [p.name for p in tmp_path.iterdir()] == ["ledger"]


def test_copies_and_pickles_are_the_same_ledger(tmp_path):
    ledger = opened(tmp_path / "ledger", epsilon=2.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    model = PrivateAUCClassifier(0.5, 1e-6, bounds=(-4, 4), ledger=ledger)
    clone(model).fit(X, y)
    pickle.loads(pickle.dumps(model)).fit(X, y)
    assert [entry.purpose for entry in ledger.entries] == ["fit of statistics, n = 50"] * 2


def test_refusals(tmp_path):
    path = tmp_path / "ledger"
    with pytest.raises(FileNotFoundError, match="give its budget"):
        PrivacyLedger.open(path)
    opened(path).spend("first", mu=0.1)
    for name, value in (("epsilon", 2.0), ("delta", 1e-6), ("data", "other"),
                        ("neighbours", "add_remove")):  # fmt: skip
        with pytest.raises(LedgerFileError, match=f"has {name} = "):
            opened(path, **{name: value})
    ledger = PrivacyLedger.open(path)
    text = path.read_text()
    for forged in (
        text.replace('"mu": 0.1', '"mu": 0.001'),
        text.replace('"epsilon": 1.0', '"epsilon": 9.0'),
        text[:-2],
        text + "{}\n",
        text + "[" * 100_000,
        "[" * 100_000,
        '"a text"',
        "3",
        "",
    ):
        path.write_text(forged)
        with pytest.raises(LedgerFileError):
            ledger.spend("next", mu=0.1)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is gone; restore it from a copy"):
        ledger.spend("next", mu=0.1)


def spent(path, n, **facts):
    ledger = opened(path, **facts)
    for k in range(n):
        ledger.spend(f"number {k}", mu=0.01)
    return ledger


@contextmanager
def elsewhere():
    """A process that has seen nothing."""
    seen, places = ledger_file._seen.copy(), ledger_file._places.copy()
    ledger_file._seen.clear()
    ledger_file._places.clear()
    yield
    ledger_file._seen.update(seen)
    ledger_file._places.update(places)


def refused_elsewhere(said, path, **facts):
    with elsewhere(), pytest.raises(LedgerFileError, match=said):
        PrivacyLedger.open(path, **facts)


def test_whoever_has_seen_more_notices_that_lines_are_gone(tmp_path):
    path = tmp_path / "ledger"
    ledger = spent(path, 3)
    passed_on = pickle.dumps(ledger)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (1, 2, 3):
        path.write_bytes(b"".join(lines[:kept]))
        for attempt in (lambda: ledger.spend("next", mu=0.01), lambda: PrivacyLedger.open(path),
                        lambda: ledger.spent_epsilon, lambda: pickle.loads(passed_on)):  # fmt: skip
            with pytest.raises(LedgerFileError, match=f"has {kept - 1} entries, but th"):
                attempt()
    # Another process has seen nothing, but the pickle has.
    with elsewhere(), pytest.raises(LedgerFileError, match="passed it on has seen 3"):
        pickle.loads(passed_on)
    # Rewritten entries of the right number, with digests that fit.
    with elsewhere():
        PrivacyLedger.open(path).spend("other", mu=0.01)
    with pytest.raises(LedgerFileError, match="other entries than this process has seen"):
        ledger.spend("next", mu=0.01)
    path.write_bytes(whole)
    ledger.spend("next", mu=0.01)


def test_a_ledger_that_is_gone_or_exchanged_is_noticed(tmp_path):
    path, other = tmp_path / "ledger", tmp_path / "other"
    ledger = spent(path, 2)
    assert opened(other).identity != ledger.identity
    whole = path.read_bytes()
    path.write_bytes(other.read_bytes())
    for attempt in (lambda: ledger.entries, lambda: PrivacyLedger.open(path)):
        with pytest.raises(LedgerFileError, match="another ledger has replaced"):
            attempt()
    path.unlink()
    with pytest.raises(LedgerFileError, match="is gone, of which this process has seen 2 entries"):
        opened(path)
    # A ledger may move, and an untouched one may be made again.
    (tmp_path / "moved").write_bytes(whole)
    assert len(PrivacyLedger.open(tmp_path / "moved").entries) == 2
    other.unlink()
    opened(other, epsilon=2.0)


def test_a_file_has_one_name(tmp_path):
    path, link = tmp_path / "ledger", tmp_path / "link"
    ledger = spent(path, 1)
    os.link(path, link)
    for name in (path, link):
        with pytest.raises(LedgerFileError, match="has 2 names"):
            PrivacyLedger.open(name)
    with pytest.raises(LedgerFileError, match="has 2 names"):
        ledger.spend("next", mu=0.01)
    link.unlink()
    link.symlink_to(path)
    linked = PrivacyLedger.open(link)
    linked.spend("through a link", mu=0.01)
    assert link.is_symlink()
    assert [entry.purpose for entry in ledger.entries] == ["number 0", "through a link"]


def test_what_is_no_ledger(tmp_path):
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, said in ((tmp_path, "is a folder"), ("/dev/null", "is a device or a pipe"),
                       (tmp_path / "pipe", "is a device or a pipe"),
                       (tmp_path / "empty", "is empty, not a ledger")):  # fmt: skip
        for facts in ({}, {"epsilon": 1.0, "delta": 1e-5}):
            with pytest.raises(LedgerFileError, match=said):
                PrivacyLedger.open(name, **facts)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        opened(tmp_path / "none" / "ledger")
    with pytest.raises(ValueError, match="belongs to a ledger of persons"):
        opened(tmp_path / "new", rows_per_person=3)
    assert not (tmp_path / "new").exists()


def test_a_seal_knows_how_many_entries_there_were(tmp_path):
    path, seal = tmp_path / "ledger", tmp_path / "seal"
    spent(path, 3, seal=seal)
    assert json.loads(seal.read_text())["entries"] == 3
    whole, sealed = path.read_bytes(), seal.read_bytes()
    lines = whole.splitlines(keepends=True)
    with elsewhere():
        assert len(PrivacyLedger.open(path).entries) == 3
    # Behind its seal.
    path.write_bytes(b"".join(lines[:-1]))
    refused_elsewhere("has 2 entries, but its seal", path)
    path.unlink()
    budget = {"epsilon": 1.0, "delta": 1e-5, "seal": seal}
    for name in ("ledger", "other"):
        refused_elsewhere("with 3 entries; restore that ledger", tmp_path / name, **budget)
    # Rewritten, with digests that fit.
    path.write_bytes(lines[0])
    first = {"entries": 0, "digest": json.loads(lines[0])["digest"]}
    seal.write_text(json.dumps(json.loads(sealed) | first))
    with elsewhere():
        for _ in range(3):
            PrivacyLedger.open(path).spend("x", mu=0.01)
    seal.write_bytes(sealed)
    refused_elsewhere("has other entries than its seal", path)
    path.write_bytes(whole)
    # Missing, moved, of another ledger, or none at all.
    seal.unlink()
    refused_elsewhere("is missing; put it back", path)
    moved = tmp_path / "moved"
    moved.write_bytes(sealed)
    with elsewhere():
        PrivacyLedger.open(path, seal=moved).spend("sealed elsewhere", mu=0.01)
    assert json.loads(moved.read_text())["entries"] == 4
    seal.write_text("{}")
    refused_elsewhere("is not a seal of a ledger", path)
    opened(tmp_path / "second", seal=tmp_path / "second seal")
    refused_elsewhere("seals another ledger", path, seal=tmp_path / "second seal")
    opened(tmp_path / "third")
    refused_elsewhere("was made without a seal", tmp_path / "third", seal=moved)
    with pytest.raises(LedgerFileError, match="another file, in a folder that exists"):
        opened(tmp_path / "fourth", seal=tmp_path / "fourth")


#: A process that dies between the two writes of a spend, or of a new ledger.
DIES = """
import os
from pairlearn.privacy.accounting import ledger_file

name, write = sys.argv[3], ledger_file.atomic_write
def dying(path, data):
    if str(path).endswith(name):
        os._exit(9)
    write(path, data)
ledger_file.atomic_write = dying
"""


def test_a_process_that_dies_between_ledger_and_seal(tmp_path):
    path, seal = tmp_path / "ledger", tmp_path / "seal"
    new = "PrivacyLedger.open(sys.argv[1], epsilon=1.0, delta=1e-5, seal=sys.argv[2])"

    def dies(code, name):
        start = "import sys; from pairlearn.privacy.accounting.ledger import PrivacyLedger\n"
        arguments = [sys.executable, "-c", start + DIES + code, path, seal, name]
        assert subprocess.run(arguments, check=False).returncode == 9

    dies(new, "ledger")
    assert (path.exists(), seal.exists()) == (False, True)
    ledger = opened(path, seal=seal)
    ledger.spend("first", mu=0.01)
    # The entry is on disk, its seal is not: nothing is lost, and nobody is locked out.
    dies(new + ".spend('second', mu=0.01)", "seal")
    assert json.loads(seal.read_text())["entries"] == 1
    assert [entry.purpose for entry in PrivacyLedger.open(path).entries] == ["first", "second"]
    dies(new + ".spend('third', mu=0.01)", "ledger")
    assert len(ledger.entries) == 2
    ledger.spend("fourth", mu=0.01)
    assert json.loads(seal.read_text())["entries"] == 3


def test_a_seal_that_cannot_be_written(tmp_path, monkeypatch):
    path, seal = tmp_path / "ledger", tmp_path / "seal"
    ledger = spent(path, 1, seal=seal)
    write = ledger_file.atomic_write

    def full(name, data):
        if name == seal:
            raise OSError(errno.ENOSPC, "No space left on device", str(name))
        write(name, data)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "atomic_write", full)
        with pytest.raises(LedgerFileError, match=r"'second' stands in the ledger .*No space left"):
            ledger.spend("second", mu=0.01)
    ledger.spend("third", mu=0.01)
    assert len(ledger.entries) == json.loads(seal.read_text())["entries"] == 3


def test_threads_see_no_removed_lines_where_there_are_none(tmp_path):
    ledger = spent(tmp_path / "ledger", 1, epsilon=5.0)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(ledger.spend, f"thread {k}", mu=0.01) for k in range(20)]
        found += [pool.submit(lambda: ledger.spent_epsilon) for _ in range(40)]
        for one in found:
            one.result()
    assert len(ledger.entries) == 21


def test_the_program_makes_a_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = "privacy ledger create patients.ledger --epsilon 1 --delta 1e-6 --unit person "
    made += "--seal patients.seal --data visits"
    assert run_program(program, made.split()) == 0
    ledger = PrivacyLedger.open("patients.ledger")
    assert (ledger.unit, ledger.rows_per_person, ledger.epsilon) == ("person", None, 1.0)
    assert (ledger.data, ledger.entries) == ("visits", ())
    assert (tmp_path / "patients.seal").exists()
    assert run_program(program, made.split()) != 0


def test_advice_can_be_typed_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(words):
        code = run_program(program, shlex.split(words)[1:])
        return code, capsys.readouterr().err

    code, said = run("pairlearn privacy ledger show patients.ledger")
    assert code != 0
    advice = "pairlearn privacy ledger create patients.ledger --epsilon 1.0 --delta 1e-06"
    assert said.rstrip().endswith(f"{advice}.")
    assert run(advice)[0] == 0
    code, said = run("pairlearn privacy ledger check patients.ledger --mu .1 --unit person")
    advice = "pairlearn privacy ledger create new.ledger --epsilon 1.0 --delta 1e-06 --unit person"
    assert said.rstrip().endswith(f"{advice}.")
    assert run(advice)[0] == 0
    assert run("pairlearn privacy ledger check new.ledger --mu .1")[0] == 0
    code, said = run("pairlearn privacy ledger check new.ledger --mu .1 --unit example")
    advice = said[said.index("pairlearn privacy ledger create") :].rstrip().removesuffix(".")
    assert "--rows-per-person 10" in advice
    assert run(advice.replace("new.ledger", "newer.ledger"))[0] == 0
    assert run("pairlearn privacy ledger check newer.ledger --mu .01 --unit example")[0] == 0
    # In Python, the Python call.
    with pytest.raises(FileNotFoundError) as refused:
        PrivacyLedger.open("absent.ledger")
    call = re.search(r"PrivacyLedger\.open\(.*?\)", str(refused.value))[0]
    assert eval(call).epsilon == 1.0
    assert (tmp_path / "absent.ledger").exists()


def test_the_program_shows_and_checks(tmp_path):
    path = tmp_path / "ledger"
    opened(path, data="patients").spend("first model", mu=0.1)
    run = CliRunner().invoke
    shown = run(command, ["ledger", "show", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "first model" in shown.output
    assert "patients" in shown.output
    plain = json.loads(run(command, ["ledger", "show", str(path), "--json"]).stdout)
    assert plain["entries"][0]["mu"] == 0.1
    assert plain["spent_epsilon"] == pytest.approx(PrivacyLedger.open(path).spent_epsilon)
    assert run(command, ["ledger", "check", str(path)]).exit_code == 0
    assert run(command, ["ledger", "check", str(path), "--mu", "0.1"]).exit_code == 0
    refused = run(command, ["ledger", "check", str(path), "--mu", "3"])
    assert refused.exit_code == 1
    assert "would exceed" in refused.output
    assert len(PrivacyLedger.open(path).entries) == 1
    for kind in (["--unit", "person"], ["--neighbours", "add_remove"]):
        refused = run(command, ["ledger", "check", str(path), *kind])
        assert refused.exit_code == 2
        assert f"{kind[0]} is about a release" in refused.output
    path.write_text(path.read_text().replace("first", "other"))
    assert run(command, ["ledger", "check", str(path)]).exit_code == 1


#: Four processes at a time spend until they are refused; some are killed in the middle. What a
#: process was allowed it writes down, as a release would.
PROGRAM = """
import os, random, signal, sys, time
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger

path, allowed, n_runs, mu = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
PrivacyLedger.open(path).spend("warm up", mu=mu)
random.seed(0)

def work(number):
    ledger = PrivacyLedger.open(path)
    log = os.open(allowed, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for k in range(3):
        try:
            ledger.spend(f"run {number}, number {k}", mu=mu)
        except BudgetExceededError:
            return
        os.write(log, f"run {number}, number {k}\\n".encode())

alive = {}
for number in range(n_runs):
    while len(alive) >= 4:
        if random.random() < 0.5:
            time.sleep(0.01 * random.random())
            os.kill(random.choice(list(alive)), signal.SIGKILL)
        alive.pop(os.wait()[0])
    child = os.fork()
    if child == 0:
        work(number)
        os._exit(0)
    alive[child] = number
while alive:
    alive.pop(os.wait()[0])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are made by fork")
@pytest.mark.thorough
@pytest.mark.parametrize("n_runs", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_processes_that_are_killed_never_overspend(tmp_path, n_runs):
    path, allowed = tmp_path / "ledger", tmp_path / "allowed"
    budget = n_runs  # fewer than the 3 n_runs that are tried
    ledger = opened(path, seal=tmp_path / "seal")
    mu = mu_of(1.0, 1e-5) / np.sqrt(budget)
    subprocess.run([sys.executable, "-c", PROGRAM, path, allowed, str(n_runs), str(mu)], check=True)
    entered = [entry.purpose for entry in ledger.entries]
    released = allowed.read_text().splitlines()
    assert len(entered) <= budget
    assert ledger.spent_epsilon <= 1.0 + 1e-9
    assert len(set(entered)) == len(entered)
    assert set(released) <= set(entered)
    assert len(released) > 5
    # Whoever was killed holds nothing.
    with pytest.raises(BudgetExceededError):
        ledger.spend("more than there is", mu=1.0)
