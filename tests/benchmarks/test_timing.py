# SPDX-License-Identifier: BSD-3-Clause
"""The clocks, with a clock of our own; no test depends on real time."""

import json

import pytest
from benchmarks.report import Effort, Row, UnavailableError, describe_machine, table
from benchmarks.timing import best_of, marginal

from benchmarks import __main__ as program


class Work:
    """A clock that only work advances."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def clock(self):
        return self.now

    def task(self, name, *costs):
        remaining = list(costs)

        def run():
            self.log.append(name)
            self.now += remaining.pop(0) if len(remaining) > 1 else remaining[0]

        return run


def test_best_of_takes_turns_and_leaves_the_first_run_out():
    work = Work()
    best = best_of(
        {"a": work.task("a", 0.1, 5.0, 3.0, 4.0), "b": work.task("b", 100.0, 2.0)},
        seconds=0.0,
        clock=work.clock,
    )
    assert best == pytest.approx({"a": 3.0, "b": 2.0})
    assert "".join(work.log) == "ab" + "ab" + "ba" + "ab"


def test_best_of_goes_on_until_the_time_is_used():
    work = Work()
    best_of({"a": work.task("a", 1.0)}, seconds=9.5, min_rounds=2, clock=work.clock)
    assert len(work.log) == 1 + 10


def test_marginal_leaves_fixed_costs_out():
    work = Work()

    def run(units):
        work.now += 7.0 + 0.25 * units

    found = marginal({"x": (run, 2, 10)}, seconds=0.0, clock=work.clock)
    assert found == pytest.approx({"x": 0.25})
    with pytest.raises(ValueError, match="short run must be shorter, got 3 and 3"):
        marginal({"x": (run, 3, 3)}, seconds=0.0)


def test_rows_judge_in_both_directions():
    faster = Row("faster", 2.0, 12.0, "ns", 5.0, 7.0)
    assert (faster.ratio, faster.ok, faster.reaches_goal) == (6.0, True, False)
    dearer = Row("dearer", 6.0, 2.0, "ns", 2.0, 1.0, at_most=True)
    assert (dearer.ratio, dearer.ok, dearer.reaches_goal) == (3.0, False, False)
    assert dearer.as_dict()["ok"] is False
    assert table([faster, dearer]).row_count == 2


def test_the_program_reports_rows_gaps_and_breakage(monkeypatch, tmp_path, capsys):
    def stand_in(name):
        class Module:
            @staticmethod
            def run(effort):
                assert effort == Effort(quick=True)
                if name == "benchmarks.native":
                    raise UnavailableError("no compiler here")
                if name == "benchmarks.fit":
                    raise RuntimeError("it broke")
                return [Row(name, 1.0, 2.0, "ns", 3.0, 4.0)]

        return Module

    monkeypatch.setattr(program.importlib, "import_module", stand_in)
    target = tmp_path / "rows.json"
    assert program.main(["--quick", "--only", "dense", "--json", str(target)]) == 0
    assert program.main(["--quick", "--only", "dense", "--strict"]) == 1
    assert program.main(["--quick", "--only", "native"]) == 0
    assert "no compiler here" in capsys.readouterr().out
    assert program.main(["--quick", "--json", str(target)]) == 1
    written = json.loads(target.read_text())
    assert [row["name"] for row in written["rows"]] == [
        f"benchmarks.{name}" for name in program.QUICK if name not in ("native", "fit")
    ]
    assert written["rows"][0]["ratio"] == 2.0
    assert list(written["skipped"]) == ["native"]
    assert "it broke" in written["broken"]["fit"]
    assert written["numpy"] == describe_machine()["numpy"]
