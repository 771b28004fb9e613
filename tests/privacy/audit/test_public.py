# SPDX-License-Identifier: BSD-3-Clause
"""What an audit of public numbers decides: each finding refutes, and choices follow their law."""

from dataclasses import replace

import numpy as np
import pytest

from pairlearn.privacy import audit_entry, neighbouring_tables
from pairlearn.privacy.audit.attack import AuditResult
from pairlearn.privacy.audit.exact import Entry, check_entry
from pairlearn.privacy.audit.public import PublicAudit, _frequencies, _projected

SOUND = AuditResult(1.0, 1e-3, 0.5, None, 0.2, 10, 0.99)
BROKEN = replace(SOUND, epsilon_lower=1.5)
PASSED = PublicAudit(1.0, 1e-3, (), 5, "a pair", 0.9, SOUND, SOUND, 1.0, 0.0, 2.0, 0.99)


def test_every_finding_refutes():
    assert PASSED.passed
    assert replace(PASSED, releases=None).passed
    for broken in (
        {"findings": ("a leak",)},
        {"public": BROKEN},
        {"releases": BROKEN},
        {"noise_upper": 0.99},
        {"noise_correlation_lower": 0.01},
        {"public": BROKEN, "releases": None},
    ):
        changed = replace(PASSED, **broken)
        assert not changed.passed
        assert "REFUTED" in changed.statement()


def test_the_unit_of_a_public_number_does_not_matter():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    tables = [rng.normal(size=(400, 3)) @ root + shift for shift in (0.0, 0.4)]
    units = np.array([1e-3, 1.0, 1e4])
    plain = _projected(tuple(tables))
    scaled = _projected(tuple(table * units for table in tables))
    for one, other in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    # Fisher: along the inverse of the common covariance times the difference of the means, up to
    # a ridge of 1 %
    halves = [table[:200] for table in tables]
    common = 0.5 * (np.cov(halves[0].T) + np.cov(halves[1].T))
    w = np.linalg.solve(common, halves[0].mean(axis=0) - halves[1].mean(axis=0))
    assert np.corrcoef(plain[0], tables[0] @ w)[0, 1] > 0.98


def test_a_number_without_noise_separates_the_tables_at_once():
    rng = np.random.default_rng(1)
    first, second = (np.column_stack([rng.normal(size=200), np.full(200, x)]) for x in (0.0, 1e-8))
    mine, theirs = _projected((first, second))
    assert mine.min() > theirs.max()


def test_frequencies_are_compared_with_the_law():
    law = np.array([0.1, 0.4, 0.0, 0.5])
    fair = np.repeat([0, 1, 3], [1, 4, 5])[:, None].astype(float)
    assert _frequencies((fair, fair), (law, law), 1e-3) == []
    for wrong in (2.0, 4.0):
        never = np.append(fair, [[wrong]], axis=0)
        found = _frequencies((fair, never), (law, law), 1e-3)
        assert found == ["a choice was made that has no chance by its law"]
    other = np.repeat([0, 1, 3], [40, 4, 5])[:, None].astype(float)
    found = _frequencies((other, fair), (law, law), 1e-3)
    assert found == ["choices do not have the frequencies of their law"]


class Choice(Entry):
    """One of two outcomes; the label of a row makes the second one e^ratio times as likely."""

    name, delta = "a choice", 0.0

    def __init__(self, ratio, epsilon, sample=None):
        self.ratio, self.epsilon = ratio, epsilon
        self.sample = ratio if sample is None else sample
        self.rng = np.random.default_rng(0)

    def pairs(self):
        return [neighbouring_tables((-1.0, 1.0), n=4, neighbours="replace")[1]]

    def chances(self, table, ratio):
        odds = np.exp((0.5 - (1 in table.y)) * ratio)
        return np.array([1.0, odds]) / (1.0 + odds)

    def law(self, table):
        return self.chances(table, self.ratio)

    def run(self, table):
        return self.rng.choice(2, p=self.chances(table, self.sample))

    def numbers(self, result):
        return np.array([float(result)])

    def public(self, result):
        return {}


def test_the_law_of_a_choice_is_compared_exactly():
    # odds of e^+-r/2 differ by log((1 + e^(r/2)) / (1 + e^(-r/2))) = r / 2 in each outcome
    for ratio in (1.0, 2.0, 3.0):
        sound = check_entry(Choice(ratio, 0.5 * ratio))
        assert sound.findings == []
        assert sound.share == pytest.approx(1.0)
        broken = check_entry(Choice(ratio, 0.5 * ratio / 1.5))
        assert "times as likely on the neighbour" in broken.findings[0]


def test_a_choice_is_attacked_by_its_likelihood_ratio():
    result = audit_entry(Choice(4.0, 2.0), n_runs=600)
    assert result.passed
    # the attack finds most of the epsilon of 2 that is there
    assert 1.0 < result.public.epsilon_lower < 2.0
    assert not audit_entry(Choice(0.1, 0.05, sample=4.0), n_runs=600).passed
