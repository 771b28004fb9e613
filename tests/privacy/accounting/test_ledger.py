# SPDX-License-Identifier: BSD-3-Clause
import json
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.privacy.accounting.certificate import Certificate, Release
from pairlearn.privacy.accounting.gaussian import epsilon_of_mu, gaussian_delta, mu_of
from pairlearn.privacy.accounting.ledger import (
    Budget,
    BudgetExceededError,
    LedgerFileError,
    PrivacyLedger,
    Spend,
)


def test_whole_budget_fits_and_no_more():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    whole = mu_of(1.0, 1e-5)
    for _ in range(4):
        ledger.spend("quarter", mu=whole / 2)
    assert ledger.spent_epsilon == pytest.approx(1.0, abs=1e-6)
    assert ledger.remaining_mu < 1e-4
    with pytest.raises(BudgetExceededError, match="over the budget"):
        ledger.spend("one too many", mu=whole / 10)
    assert len(ledger.entries) == 4


def test_mixed_entries_add_by_basic_composition():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    ledger.spend("selection", epsilon=0.5)
    ledger.spend("mixture", epsilon=0.2, delta=4e-6)
    ledger.spend("gaussian", mu=0.2)
    assert ledger.spent_epsilon == pytest.approx(0.7 + epsilon_of_mu(0.2, 6e-6))
    with pytest.raises(BudgetExceededError):
        ledger.spend("delta", epsilon=0.01, delta=7e-6)


@pytest.mark.parametrize("delta", [1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("parts", [3, 7, 11, 12])
def test_a_budget_holds_as_many_equal_parts_as_were_meant(delta, parts):
    # In floating point the sum of the parts may be above the product.
    ledger = PrivacyLedger(epsilon=0.1 * parts, delta=float(f"{parts * delta:g}"))
    for _ in range(parts):
        ledger.spend("part", epsilon=0.1, delta=delta)
    assert ledger.spent_epsilon == pytest.approx(0.1 * parts)
    assert ledger.remaining_mu < 1e-6
    with pytest.raises(BudgetExceededError):
        ledger.spend("one too many", epsilon=1e-12, delta=1e-6 * delta)


def test_nothing_gaussian_fits_where_no_delta_is_left():
    # for a small mu the delta at epsilon = 1 is 0 to the last bit, and at epsilon = 0 it is not
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    ledger.spend("mixture", epsilon=0.2, delta=1e-5)
    assert ledger.remaining_mu == 0.0
    for mu in (1e-6, 0.01, 1.0):
        with pytest.raises(BudgetExceededError, match="epsilon = inf"):
            ledger.spend("gaussian", mu=mu)
    ledger.spend("selection", epsilon=0.5)
    assert ledger.spent_epsilon == pytest.approx(0.7)


def hockey_stick(P, Q, epsilon):
    return float(np.maximum(P - np.exp(epsilon) * Q, 0.0).sum())


@given(seed=st.integers(0, 2**32), k=st.integers(2, 6), epsilon=st.sampled_from([0.0, 0.2, 1.0]))
@settings(max_examples=150)
def test_group_privacy_against_brute_force(seed, k, epsilon):
    # k + 1 data sets in a row, a random law for each; neighbours say which delta holds.
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.ones(6), k + 1)
    laws = laws[0] + rng.random() * (laws - laws[0])
    both = [*pairwise(laws), *pairwise(laws[::-1])]
    delta = max(hockey_stick(P, Q, epsilon) for P, Q in both)
    spend = Spend("release", epsilon=epsilon or 1e-12, delta=delta)
    far = spend.under(Budget(1, 1e-6, unit="person", rows_per_person=k))
    assert far.epsilon == pytest.approx(k * epsilon, abs=1e-10)
    assert hockey_stick(laws[0], laws[-1], k * epsilon) <= far.delta * (1 + 1e-9) + 1e-12


def test_group_privacy_is_attained():
    # Delta moves to a place of its own, and the rest by e^epsilon: nothing smaller would do.
    epsilon, delta, k = 0.3, 0.01, 4
    inner = [0.5 * delta]
    for _ in range(k - 1):
        inner.append(np.exp(epsilon) * inner[-1] + delta)
    grown = Spend("r", epsilon=epsilon, delta=delta).under(
        Budget(1, 1e-6, unit="person", rows_per_person=k)
    )
    # p_k = e^(k epsilon) p_0 + delta (e^(k epsilon) - 1)/(e^epsilon - 1), step by step.
    last = np.exp(epsilon) * inner[-1] + delta
    assert last == pytest.approx(np.exp(k * epsilon) * inner[0] + grown.delta)
    # Noise with k times the distance.
    gaussian = Spend("g", mu=0.1).under(Budget(1, 1e-6, unit="person", rows_per_person=k))
    x = np.linspace(-40, 40, 200_001)
    P, Q = (np.exp(-0.5 * (x - at) ** 2) / np.sqrt(2 * np.pi) * (x[1] - x[0]) for at in (0.4, 0))
    assert hockey_stick(P, Q, 0.5) == pytest.approx(gaussian_delta(gaussian.mu, 0.5), rel=1e-4)
    # An entry that the change makes worthless never fits.
    hopeless = Spend("r", epsilon=300.0, delta=1e-9).under(
        Budget(1, 1e-6, unit="person", rows_per_person=k)
    )
    assert (hopeless.epsilon, hopeless.delta) == (1200.0, 1.0)


#: Changes of an entry's kind in one change of the ledger's kind; None is refused.
STEPS = {
    # entry: (unit, relation); ledger: (unit, relation, rows per person)
    (("example", "replace"), ("example", "replace", None)): 1,
    (("example", "add_remove"), ("example", "replace", None)): 2,
    (("example", "replace"), ("example", "add_remove", None)): None,
    (("example", "replace"), ("person", "replace", None)): None,
    (("example", "replace"), ("person", "replace", 5)): 5,
    (("example", "add_remove"), ("person", "replace", 5)): 10,
    (("example", "add_remove"), ("person", "add_remove", 5)): 5,
    (("example", "replace"), ("person", "add_remove", 5)): None,
    (("person", "replace"), ("person", "replace", None)): 1,
    (("person", "replace"), ("person", "replace", 5)): 1,
    (("person", "add_remove"), ("person", "replace", None)): 2,
    (("person", "replace"), ("example", "replace", None)): None,
    (("person", "add_remove"), ("example", "add_remove", None)): 2,
    (("person", "add_remove"), ("example", "replace", None)): 4,
    (("person", "replace"), ("example", "add_remove", None)): None,
}


@pytest.mark.parametrize("kinds", STEPS)
def test_units_are_converted_or_refused(kinds):
    (unit, relation), (whose, neighbours, most) = kinds
    ledger = PrivacyLedger(
        epsilon=1.0, delta=1e-5, neighbours=neighbours, unit=whose, rows_per_person=most
    )
    price = {"neighbours": relation, "unit": unit}
    if STEPS[kinds] is None:
        with pytest.raises(ValueError, match=r"PrivacyLedger\(epsilon=1.0, delta=1e-05"):
            ledger.spend("release", mu=0.01, **price)
        assert ledger.entries == ()
        return
    ledger.spend("release", mu=0.01, **price)
    assert ledger.spent_epsilon == pytest.approx(epsilon_of_mu(0.01 * STEPS[kinds], 1e-5))
    again = PrivacyLedger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again.entries == ledger.entries
    assert (again.budget.unit, again.budget.rows_per_person) == (whose, most)
    # The advice can be followed: what is said to be left fits.
    with pytest.raises(BudgetExceededError) as refused:
        ledger.spend("too much", mu=5.0, **price)
    left = float(re.search(r"at most mu = (\S+),", str(refused.value))[1])
    ledger.spend("the rest", mu=left, **price)


def test_all_pairs_of_kinds_are_decided():
    # By brute force over tables of at most two persons: how many entry steps is one ledger step?
    rows = [(who, x) for who in "ab" for x in (0, 1)]
    tables = {
        tuple(sorted(table))
        for size in range(5)
        for table in combinations_with_replacement(rows, size)
    }

    def persons(table):
        return {who: tuple(row for row in table if row[0] == who) for who, _ in table}

    def near(one, two, unit, relation):
        mine, theirs = persons(one), persons(two)
        if unit == "person":
            changed = {who for who in {*mine, *theirs} if mine.get(who) != theirs.get(who)}
            gone, come = mine.keys() - theirs.keys(), theirs.keys() - mine.keys()
            if relation == "add_remove":
                return len(changed) == 1 and len(gone) + len(come) == 1
            if len(mine) != len(theirs):
                return False
            return len(changed) == 1 or (len(changed) == 2 and len(gone) == len(come) == 1)
        a, b = Counter(one), Counter(two)
        lost, new = sum((a - b).values()), sum((b - a).values())
        return (lost, new) == (1, 1) if relation == "replace" else lost + new == 1

    def steps(start, unit, relation):
        seen, edge, count = {start: 0}, [start], 0
        while edge:
            count += 1
            edge = [
                two
                for two in tables
                if two not in seen and any(near(one, two, unit, relation) for one in edge)
            ]
            seen |= dict.fromkeys(edge, count)
        return seen

    starts = [(), (("a", 0),), (("a", 0), ("a", 1)), (("a", 0), ("b", 1)),
              (("a", 0), ("a", 0), ("b", 1))]  # fmt: skip
    for (kind, (whose, relation, most)), stated in STEPS.items():
        reached, open_end = 0, False
        for start in starts:
            from_here = steps(start, *kind)
            for other in tables:
                if other == start or not near(start, other, whose, relation):
                    continue
                if whose == "person":
                    counts = [len(part) for t in (start, other) for part in persons(t).values()]
                    if relation == "replace" and len(start) != len(other):
                        continue  # by another with as many rows
                    if most is not None and max(counts, default=0) > 2:
                        continue
                if other in from_here:
                    reached = max(reached, from_here[other])
                else:
                    open_end = True
        if stated is not None:
            assert not open_end, kind
            # Here a person has at most two rows, not five.
            assert reached <= (stated if most is None or stated < 5 else stated * 2 // 5)
        elif most is None and whose == "example":
            assert open_end, kind


def test_a_spend_must_cost_something():
    with pytest.raises(ValueError, match="mu > 0 or epsilon > 0"):
        PrivacyLedger(epsilon=1.0, delta=1e-5).spend("nothing")


def certificate(**changes):
    values = dict(
        mechanism="statistics",
        neighbours="replace",
        epsilon=1.0,
        delta=1e-6,
        n_examples=100,
        n_features=2,
        releases=(Release("mean", 2, 0.01, 0.05),),
        generator="os",
        private=True,
        mu=0.2,
        public={"bounds": "given"},
        accounting="Gaussian-DP",
    )
    return Certificate(**(values | changes))


def test_certificate_statement_and_round_trip():
    first = certificate()
    text = first.statement()
    assert "(1, 1e-06)-differentially private" in text
    assert "one example replaced" in text
    assert "L2 sensitivity 0.01" in text
    assert certificate(private=False).statement().startswith("NOT PRIVATE")
    assert Certificate.from_dict(json.loads(json.dumps(first.to_dict()))) == first
    assert first.epsilon_at(1e-6) == pytest.approx(epsilon_of_mu(0.2, 1e-6))
    assert certificate(mu=None).epsilon_at(1e-7) == float("inf")
    with pytest.raises(ValueError, match="format"):
        Certificate.from_dict({})


@pytest.mark.parametrize(
    ("change", "words"),
    [({"private": "False"}, "private must be true or false, got 'False'"),
     ({"noise_scale": 0.0}, "noise above 0, got sensitivity=0.01 and noise_scale=0.0"),
     ({"sensitivity": -1.0}, "got sensitivity=-1.0"), ({"noise_scale": "much"}, "'much'"),
     ({"sensitivity": float("nan")}, "got sensitivity=nan")],
)  # fmt: skip
def test_a_certificate_of_a_file_holds_what_it_may(change, words):
    plain = certificate().to_dict()
    (plain["releases"][0] if change.keys() & plain["releases"][0].keys() else plain).update(change)
    with pytest.raises(ValueError, match=words):
        Certificate.from_dict(plain)


def test_a_ledger_in_memory_is_not_spent_from_in_another_process(in_a_child):
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)

    def spend():
        try:
            ledger.spend("fit", mu=0.1)
        except RuntimeError:
            return 7
        return 0

    assert in_a_child(spend) == 7
    assert ledger.spent_epsilon == 0.0


def test_round_trips():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    ledger.spend("fit", mu=0.1)
    again = PrivacyLedger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again.spent_epsilon == ledger.spent_epsilon
    with pytest.raises(TypeError, match=r"cannot be pickled.*PrivacyLedger\.open"):
        pickle.dumps(ledger)
    forged = ledger.to_dict()
    forged["entries"] *= 100
    with pytest.raises(BudgetExceededError):
        PrivacyLedger.from_dict(forged)


@pytest.mark.parametrize("composition", ["adaptive", "disjoint"])
def test_events_for_another_accountant(composition):
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    releases = tuple(Release(f"release {k}", 2, 0.3 + 0.1 * k, 1.0) for k in range(3))
    mu = 0.5 if composition == "disjoint" else (0.09 + 0.16 + 0.25) ** 0.5
    ours = certificate(mu=mu, releases=releases, composition=composition)
    theirs = PLDAccountant().compose(ours.events()).get_epsilon(1e-5)
    assert ours.epsilon_at(1e-5) <= theirs * (1 + 1e-9) + 1e-9
    assert theirs <= ours.epsilon_at(1e-5) + 1e-3
    assert isinstance(ours.events(), dp_accounting.ComposedDpEvent)
    with pytest.raises(ValueError, match="no event of another accountant"):
        certificate(mu=None, composition="mixture").events()


# ----------------------------------------------------------------------------- a ledger in a file


def opened(path, **facts):
    return PrivacyLedger.open(path, **({"epsilon": 1.0, "delta": 1e-5} | facts))


def test_a_file_is_a_ledger_that_stays(tmp_path):
    path = tmp_path / "ledger"
    ledger = opened(path, data="patients 2026", neighbours="add_remove")
    ledger.spend("first", mu=0.1, neighbours="add_remove")
    again = PrivacyLedger.open(path)
    assert again.budget == Budget(1.0, 1e-5, "add_remove", data="patients 2026")
    assert again.entries == ledger.entries
    assert again.entries[0].time.startswith("20")
    again.spend("second", mu=0.1, neighbours="add_remove")
    # The first object sees what the second has entered, and so does a pickle.
    assert [entry.purpose for entry in ledger.entries] == ["first", "second"]
    assert pickle.loads(pickle.dumps(ledger)).spent_epsilon == again.spent_epsilon
    with pytest.raises(BudgetExceededError):
        ledger.spend("third", mu=0.3, neighbours="add_remove")
    assert PrivacyLedger.from_dict(ledger.to_dict()).spent_epsilon == ledger.spent_epsilon
    assert [p.name for p in tmp_path.iterdir()] == ["ledger"]


def test_refusals_of_a_file(tmp_path):
    path = tmp_path / "ledger"
    with pytest.raises(FileNotFoundError, match="give its budget"):
        PrivacyLedger.open(path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        opened(tmp_path / "none" / "ledger")
    with pytest.raises(ValueError, match="belongs to a ledger of persons"):
        opened(path, rows_per_person=3)
    opened(path).spend("first", mu=0.1)
    for name, value in (("epsilon", 2.0), ("delta", 1e-6), ("data", "other"),
                        ("neighbours", "add_remove")):  # fmt: skip
        with pytest.raises(LedgerFileError, match=f"has {name} = "):
            opened(path, **{name: value})
    ledger = PrivacyLedger.open(path)
    text = path.read_text()
    for forged in (
        text.replace('"mu": 0.1', '"mu": 0.001'), text.replace('"epsilon": 1.0', '"epsilon": 9.0'),
        text[:-2], text + "{}\n", text + "[" * 100_000 + "\n", "[" * 100_000, '"a text"', "3", "",
        text.splitlines(keepends=True)[0],
    ):  # fmt: skip
        path.write_text(forged)
        with pytest.raises(LedgerFileError):
            ledger.spend("next", mu=0.1)
    path.write_text(text)
    other = opened(tmp_path / "other")
    path.write_bytes((tmp_path / "other").read_bytes())
    with pytest.raises(LedgerFileError, match="is another one"):
        ledger.spend("next", mu=0.1)
    assert other.identity != ledger.identity
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is gone; restore it from a copy"):
        ledger.spend("next", mu=0.1)


def test_a_line_that_a_killed_process_left_paid_for_nothing(tmp_path):
    path = tmp_path / "ledger"
    ledger = opened(path)
    ledger.spend("first", mu=0.1)
    with path.open("ab") as file:
        file.write(b'{"purpose": "torn')
    assert [entry.purpose for entry in ledger.entries] == ["first"]
    ledger.spend("second", mu=0.1)
    assert [entry.purpose for entry in PrivacyLedger.open(path).entries] == ["first", "second"]


def test_threads_spend_what_there_is(tmp_path):
    ledger = opened(tmp_path / "ledger", epsilon=5.0)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(ledger.spend, f"thread {k}", mu=0.01) for k in range(20)]
        found += [pool.submit(lambda: ledger.spent_epsilon) for _ in range(40)]
        for one in found:
            one.result()
    assert len(ledger.entries) == 20


#: Processes spend while another removes every file that looks like a lock; some are killed.
PROGRAM = """
import os, random, signal, sys, time
from pathlib import Path
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger

path, allowed, n_runs, mu = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
PrivacyLedger.open(path).spend("warm up", mu=mu)
random.seed(0)

def work(number):
    ledger = PrivacyLedger.open(path)
    log = os.open(allowed, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for k in range(3):
        for file in Path(path).parent.iterdir():
            if file.name not in (Path(path).name, Path(allowed).name):
                file.unlink(missing_ok=True)
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
def test_processes_that_are_killed_never_overspend(tmp_path):
    path, allowed, n_runs = tmp_path / "ledger", tmp_path / "allowed", 40
    ledger = opened(path)
    mu = mu_of(1.0, 1e-5) / np.sqrt(n_runs)  # fewer than the 3 n_runs that are tried
    subprocess.run([sys.executable, "-c", PROGRAM, path, allowed, str(n_runs), str(mu)], check=True)
    entered = [entry.purpose for entry in ledger.entries]
    released = allowed.read_text().splitlines()
    assert len(entered) <= n_runs
    assert ledger.spent_epsilon <= 1.0 + 1e-9
    assert len(set(entered)) == len(entered)
    assert set(released) <= set(entered)
    assert len(released) > 5
