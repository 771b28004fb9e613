# SPDX-License-Identifier: BSD-3-Clause
"""Every mutant is refuted, and every sound entry passes."""

import importlib.util
import sys
from pathlib import Path

import pytest

from pairlearn.cli.private.audited import entries
from pairlearn.privacy import audit_entry
from pairlearn.privacy.audit.exact import check_entry

_spec = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
_module = sys.modules["mutants"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
MUTANTS, SIZE = _module.MUTANTS, _module.SIZE

ALWAYS = [name for name, mutant in MUTANTS.items() if mutant.always]
OTHERS = {name: mutant for name, mutant in MUTANTS.items() if not mutant.always}
#: Mutants that the exact check finds, in about half a second each, and those that take many runs.
EXACT = [name for name, mutant in OTHERS.items() if mutant.words is not None]
BY_RUNS = [name for name, mutant in OTHERS.items() if mutant.words is None]


def refute(mutant, n_runs):
    """Return what the audit finds."""
    if mutant.words is None:
        result = audit_entry(mutant.what(), n_runs=n_runs)
        assert not result.passed, result.statement()
    else:
        findings = check_entry(mutant.what()).findings
        assert any(mutant.words in finding for finding in findings), findings


@pytest.mark.parametrize("name", ALWAYS)
def test_a_mutant_is_refuted(name, monkeypatch):
    MUTANTS[name].sabotage(monkeypatch)
    refute(MUTANTS[name], n_runs=16)


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXACT)
def test_a_mutant_is_refuted_exactly(name, monkeypatch):
    MUTANTS[name].sabotage(monkeypatch)
    refute(MUTANTS[name], n_runs=None)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_RUNS)
def test_a_mutant_is_refuted_by_runs(name, monkeypatch):
    MUTANTS[name].sabotage(monkeypatch)
    refute(MUTANTS[name], n_runs=2_000)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_sound_entries_are_exact(relation):
    for name, entry in entries(epsilon=1.0, delta=1e-3, neighbours=relation, **SIZE).items():
        found = check_entry(entry)
        assert found.findings == [], name
        assert found.share > 0.5, name


@pytest.mark.slow
@pytest.mark.parametrize("name", list(entries(epsilon=1.0, delta=1e-3)))
def test_sound_entries_pass(name):
    result = audit_entry(entries(epsilon=1.0, delta=1e-3)[name])
    assert result.passed, result.statement()
    print(result.statement())
