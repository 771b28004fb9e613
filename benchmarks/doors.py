# SPDX-License-Identifier: BSD-3-Clause
"""What safety costs: the look at examples before a kernel reads them, the digest of what is read.

The time inside the functions that look (ours and scikit-learn's) is a share of the whole fit, and
that inside the running digest a share of reading a text or Parquet file. For ``.npy``, where one
loop makes the digest and looks for NaN, the share is what reading takes longer than with the look
alone.

The default scaling reads every value anyway and takes no look of its own; without scaling, and for
the solver alone, the look is the only loop that reads all rows of a data set in which opposite
pairs are rare.

Run alone with ``python -m benchmarks --only doors``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from benchmarks import samples
from benchmarks.report import Effort, Row

#: Least number of runs, of which the least times are taken.
_RUNS = 5


def run(effort: Effort) -> list[Row]:
    """Measure shares of fits and of readers."""
    from sklearn.utils import validation

    from pairlearn import SGD, AUCClassifier
    from pairlearn.solvers import rows

    looks = [(rows, "_check_finite"), (rows, "_check_compressed")]
    looks += [(validation, "_assert_all_finite")]
    solver = SGD(0.1, radius=10.0, n_passes=1)
    dense = samples.dense(effort.pick(50_000, 200_000), 22, positives=samples.DENSE[22])
    text = samples.text("rcv1-like", effort.pick(5_000, 20_000))
    found = []
    for name, (X, y), options, bar in (
        ("dense, d = 22", dense, {}, 0.03),
        ("sparse, 75 non-zeros", text, {}, 0.03),
        ("dense, d = 22, scaling=None", dense, {"scaling": None}, 0.08),
        ("sparse, 75 non-zeros, scaling=None", text, {"scaling": None}, 0.03),
    ):
        model = AUCClassifier(solver=solver, random_state=0, **options)
        inside, whole = _share(looks, lambda model=model, X=X, y=y: model.fit(X, y), effort)  # type: ignore[misc]
        found.append(_row(f"looks before the kernels / one-pass fit, {name}", inside, whole, bar))
    return found


def _row(name: str, inside: float, whole: float, bar: float) -> Row:
    percent = f"{100 * inside / whole:.1f} %"
    return Row(f"{name}: {percent}", 1e3 * inside, 1e3 * whole, "ms", bar, bar / 2, at_most=True)


def _share(
    places: list[tuple[Any, str]], work: Callable[[], object], effort: Effort
) -> tuple[float, float]:
    """Return the CPU seconds inside the functions at some places, and those of the whole work."""
    work()
    best, spent, runs = (float("inf"), float("inf")), 0.0, 0
    while runs < _RUNS or spent < effort.seconds / 4:
        with _clocked(places) as clock:
            begin = time.process_time()
            work()
            whole = time.process_time() - begin
        best = (min(best[0], clock[0]), min(best[1], whole))
        spent, runs = spent + whole, runs + 1
    return best


@contextlib.contextmanager
def _clocked(places: list[tuple[Any, str]]) -> Iterator[list[float]]:
    """Let functions add the CPU time that they take to the number that is lent."""
    total = [0.0]

    def clocked(true_function: Callable[..., Any]) -> Callable[..., Any]:
        def function(*arguments: Any, **options: Any) -> Any:
            begin = time.process_time()
            try:
                return true_function(*arguments, **options)
            finally:
                total[0] += time.process_time() - begin

        return function

    with contextlib.ExitStack() as stack:
        for owner, name in places:
            replaced = mock.patch.object(owner, name, clocked(getattr(owner, name)))
            stack.enter_context(replaced)
        yield total
