# SPDX-License-Identifier: BSD-3-Clause
import json
import pickle
import re
from collections import Counter
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.privacy.accounting.certificate import Certificate, Release
from pairlearn.privacy.accounting.gaussian import epsilon_of_mu, gaussian_delta, mu_of
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger
from pairlearn.privacy.accounting.spend import Budget, Spend


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


def test_round_trips():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    ledger.spend("fit", mu=0.1)
    again = PrivacyLedger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again.entries == ledger.entries
    assert pickle.loads(pickle.dumps(ledger)).spent_epsilon == ledger.spent_epsilon
    forged = ledger.to_dict()
    forged["entries"] *= 100
    with pytest.raises(BudgetExceededError):
        PrivacyLedger.from_dict(forged)
    with pytest.raises(ValueError, match="format"):
        PrivacyLedger.from_dict({"format": 99})


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
    assert (again.unit, again.rows_per_person) == (whose, most)
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
        secure=False,
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
    assert "floating-point" in text.lower()
    assert certificate(private=False).statement().startswith("NOT PRIVATE")
    assert Certificate.from_dict(json.loads(json.dumps(first.to_dict()))) == first
    assert first.epsilon_at(1e-6) == pytest.approx(epsilon_of_mu(0.2, 1e-6))
    assert certificate(mu=None).epsilon_at(1e-7) == float("inf")
    with pytest.raises(ValueError, match="format"):
        Certificate.from_dict({})


@pytest.mark.parametrize(
    ("change", "words"),
    [({"private": "False"}, "private must be true or false, got 'False'"),
     ({"secure": 1}, "secure must be true or false, got 1"),
     ({"noise_scale": 0.0}, "noise above 0, got sensitivity=0.01 and noise_scale=0.0"),
     ({"sensitivity": -1.0}, "got sensitivity=-1.0"), ({"noise_scale": "much"}, "'much'"),
     ({"sensitivity": float("nan")}, "got sensitivity=nan")],
)  # fmt: skip
def test_a_certificate_of_a_file_holds_what_it_may(change, words):
    plain = certificate().to_dict()
    (plain["releases"][0] if change.keys() & plain["releases"][0].keys() else plain).update(change)
    with pytest.raises(ValueError, match=words):
        Certificate.from_dict(plain)


@pytest.mark.parametrize("composition", ["adaptive", "disjoint"])
def test_events_for_another_accountant(composition):
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    releases = tuple(Release(f"release {k}", 2, 0.3 + 0.1 * k, 1.0) for k in range(3))
    mu = 0.5 if composition == "disjoint" else (0.09 + 0.16 + 0.25) ** 0.5
    ours = certificate(mu=mu, releases=releases, composition=composition)
    for accountant, slack in ((PLDAccountant(), 1e-3), (RdpAccountant([2.0, 8.0, 32.0]), 1.0)):
        theirs = accountant.compose(ours.events()).get_epsilon(1e-5)
        assert ours.epsilon_at(1e-5) <= theirs * (1 + 1e-9) + 1e-9
        assert theirs <= ours.epsilon_at(1e-5) + slack
    assert isinstance(ours.events(), dp_accounting.ComposedDpEvent)
    assert ours.zcdp == pytest.approx(mu**2 / 2)
    assert ours.rdp(8.0) == pytest.approx(8 * mu**2 / 2)
    with pytest.raises(ValueError, match="above 1"):
        ours.rdp(1.0)
    # One example makes no stage, and nothing is released.
    assert certificate(mu=0.0, releases=(), composition=composition).events().events == []
    mixture = certificate(mu=None, composition="mixture")
    for attempt in (mixture.events, lambda: mixture.zcdp, lambda: mixture.rdp(2.0)):
        with pytest.raises(ValueError, match="it does not have a"):
            attempt()
