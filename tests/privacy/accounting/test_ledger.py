# SPDX-License-Identifier: BSD-3-Clause
import json
import pickle

import pytest

from pairlearn.privacy.accounting.certificate import Certificate, Release
from pairlearn.privacy.accounting.gaussian import epsilon_of_mu, mu_of
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger


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
    mixture = certificate(mu=None, composition="mixture")
    for attempt in (mixture.events, lambda: mixture.zcdp, lambda: mixture.rdp(2.0)):
        with pytest.raises(ValueError, match="average over secret draws"):
            attempt()
