# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone

from pairlearn import PrivateAUCClassifier
from pairlearn.cli.privacy import command
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
    with pytest.raises(FileNotFoundError):
        ledger.spend("next", mu=0.1)


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
    ledger = opened(path)
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
