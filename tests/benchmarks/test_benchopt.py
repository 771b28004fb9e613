# SPDX-License-Identifier: BSD-3-Clause
"""The files of the benchopt benchmark, run by a stand-in for benchopt."""

import importlib.util
import sys
import types

import numpy as np
import pytest

SOLVERS = ("pairlearn_exact", "lbfgs_all_pairs", "pairlearn_sgd", "logistic")


@pytest.fixture
def part(root, monkeypatch):
    base = types.ModuleType("benchopt")
    for name in ("BaseObjective", "BaseDataset", "BaseSolver"):
        setattr(base, name, type(name, (), {}))
    monkeypatch.setitem(sys.modules, "benchopt", base)

    def load(path, kind, **changed):
        spec = importlib.util.spec_from_file_location(
            path.replace("/", "_"), root / f"benchmarks/benchopt/{path}.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = getattr(module, kind)()
        # As benchopt does: each parameter becomes an attribute, here the last of its values.
        for name, values in getattr(made, "parameters", {}).items():
            setattr(made, name, changed.get(name, values[-1]))
        return made

    return load


@pytest.mark.parametrize("data", ["breast_cancer", "rare"])
def test_ours_reaches_the_minimum_and_all_order_pairs(part, data):
    few = {"n": 600, "positives": 0.1} if data == "rare" else {}
    objective = part("objective", "Objective")
    objective.set_data(**part(f"datasets/{data}", "Dataset", **few).get_data())
    start = objective.evaluate_result(**objective.get_one_result())
    assert start["value"] == pytest.approx(1.0)
    found = {}
    for name in SOLVERS:
        solver = part(f"solvers/{name}", "Solver")
        problem = objective.get_objective()
        assert not getattr(solver, "skip", lambda **_: (False, ""))(**problem)[0]
        solver.set_objective(**problem)
        getattr(solver, "warm_up", lambda: None)()
        solver.run(1e-12 if solver.sampling_strategy == "tolerance" else 200)
        found[name] = objective.evaluate_result(**solver.get_result())
    best = found["lbfgs_all_pairs"]["value"]
    assert found["pairlearn_exact"]["value"] == pytest.approx(best, rel=1e-4)
    assert found["pairlearn_exact"]["value"] <= best * (1 + 1e-9)
    assert found["pairlearn_sgd"]["value"] < 0.9
    assert max(one["wrong_test_pairs"] for one in found.values()) < 0.25


def test_too_many_pairs_are_left_out(part):
    solver = part("solvers/lbfgs_all_pairs", "Solver")
    y = np.repeat([1.0, -1.0], [5_000, 5_000])
    left_out, why = solver.skip(X=None, y=y, ridge=0.0)
    assert left_out
    assert "25,000,000 pairs" in why
