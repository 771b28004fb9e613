"""Plans of pairings of one's own are looked at before a kernel follows them."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from pairlearn import Hinge, LinearScore, PairwiseSGD, PreviousExample, Problem, RandomPair
from pairlearn.pairings import Arrival, OnlineSource, Pairing, Plan, SlotPlan
from pairlearn.pairings.pairs import ListedPairs
from pairlearn.pairings.plans import EMPTY, ZERO_POSITIVE
from pairlearn.pairings.sound import check_plan, is_own
from pairlearn.solvers.descent.sweep import Sweep

PROBLEM = Problem(LinearScore(), Hinge())
N = 20
X = np.random.default_rng(0).normal(size=(N, 3))
Y = np.where(np.arange(N) % 2, 1.0, -1.0)


@dataclass(frozen=True)
class Own(Pairing):
    """Gives what it is told to."""

    make: Any = field(default=None)

    def offline(self, n, rng, y=None):
        return self

    def draw(self, count):
        return self.make(count)

    def online(self, rng):
        return _OwnArrivals(self.make)


class _OwnArrivals(OnlineSource):
    def __init__(self, make):
        self.make = make

    def arrive(self, y):
        return self.make(len(y))


def pairs(count, left=0, right=1, **changes):
    return Plan(np.full(count, left), np.full(count, right), **changes)


WRONG = {
    "beyond": lambda count: pairs(count, left=N),
    "far beyond": lambda count: pairs(count, right=10**9),
    "wraps in int32": lambda count: pairs(count, right=2**32),
    "negative": lambda count: pairs(count, right=-1),
    "empty": lambda count: pairs(0),
    "too short": lambda count: pairs(count - 1),
    "too long": lambda count: pairs(count + 100_000),
    "uneven": lambda count: Plan(np.zeros(count, dtype=int), np.zeros(count - 1, dtype=int)),
    "floats": lambda count: Plan(np.zeros(count), np.zeros(count)),
    "lists": lambda count: Plan([0] * count, [1] * count),
    "no plan": lambda count: None,
}

SOLVERS = {
    "PairwiseSGD": lambda p: PairwiseSGD(p).solve(PROBLEM, X, Y, n_steps=50, rng=0),
    "Sweep": lambda p: Sweep((0.1,), (1.0,), p).solve(PROBLEM, X, Y, n_steps=50, rng=0),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_plan_is_refused(wrong, solver):
    with pytest.raises(ValueError, match=r"^Own"):
        SOLVERS[solver](Own(WRONG[wrong]))


def slots(count=4, **changes):
    """Each step meets slot 0; after step 0 row 3 takes slot 1."""
    zeros = np.zeros(count, dtype=np.int64)
    plan = SlotPlan(
        zeros + 2,
        np.array([1, EMPTY]),
        zeros,
        zeros + 1,
        np.array([0] + [1] * count),
        np.array([1]),
        np.array([3]),
        np.ones(count),
    )
    return replace(plan, **{name: np.asarray(value) for name, value in changes.items()})


WRONG_SLOTS = {
    "left": {"left": [0, 1, 2, N]},
    "start": {"start": [N, EMPTY]},
    "start below": {"start": [ZERO_POSITIVE - 1, EMPTY]},
    "first": {"first": [-1, 0, 0, 0]},
    "stop": {"stop": [1, 1, 1, 3]},
    "ends before it begins": {"first": [1, 1, 1, 1], "stop": [0, 0, 0, 0]},
    "edit_slots": {"edit_slots": [2]},
    "edit_rows": {"edit_rows": [N]},
    "edit_rows below": {"edit_rows": [-1]},
    "edit_offsets": {"edit_offsets": [0, 1, 1, 1, 9]},
    "falling offsets": {"edit_offsets": [0, 1, 0, 1, 1]},
    "short offsets": {"edit_offsets": [0, 1, 1]},
    "short scale": {"scale": [1.0]},
    "scale": {"scale": [1.0, np.nan, 1.0, 1.0]},
    "meets an empty slot": {"stop": [2, 2, 2, 2]},
}


@pytest.mark.parametrize("wrong", WRONG_SLOTS)
def test_a_wrong_buffer_is_refused(wrong):
    check_plan("P", slots(), N, 4)
    with pytest.raises(ValueError, match=r"^P: "):
        check_plan("P", slots(**WRONG_SLOTS[wrong]), N, 4)


def test_a_slot_may_be_met_from_the_step_after_it_was_filled():
    check_plan("P", slots(stop=[1, 2, 2, 2]), N)
    with pytest.raises(ValueError, match="step 0 meets the slots 0 to 1"):
        check_plan("P", slots(stop=[2, 2, 2, 2]), N)


def test_wrong_kinds_of_plan_are_refused_by_name():
    with pytest.raises(ValueError, match="one pair at a step"):
        Sweep((0.1,), (1.0,), Own(slots)).solve(PROBLEM, X, Y, n_steps=4, rng=0)


@pytest.mark.parametrize(
    "arrival",
    [
        lambda m: Arrival(Plan(np.array([m]), np.array([0])), np.array([0])),
        lambda m: Arrival(Plan(np.array([1]), np.array([-1])), np.array([0])),
        lambda m: Arrival(Plan(np.array([1]), np.array([0])), np.array([m])),
        lambda m: Arrival(Plan(np.array([1]), np.array([0])), np.array([-1])),
    ],
)
def test_a_stream_refuses_wrong_arrivals_and_stays_as_it_was(arrival):
    stream = PairwiseSGD(Own(arrival)).start(PROBLEM, 3)
    with pytest.raises(ValueError, match=r"^Own: "):
        stream.learn_many(X, Y)
    assert stream.n_examples == stream.n_steps == 0


def test_a_stream_may_learn_nothing_from_a_chunk():
    nothing = Plan(np.empty(0, dtype=int), np.empty(0, dtype=int))
    stream = PairwiseSGD(Own(lambda m: Arrival(nothing, np.array([0])))).start(PROBLEM, 3)
    assert stream.learn_many(X, Y).n_steps == 0


class Derived(RandomPair):
    """Asks a source of ours for rows that do not exist."""

    def offline(self, n, rng, y=None):
        return super().offline(1000 * n, rng, y)


def test_only_pairings_of_the_library_are_trusted():
    assert all(map(is_own, (PreviousExample(), ListedPairs(np.array([0]), np.array([1])))))
    assert not any(map(is_own, (Own(), Derived())))
    with pytest.raises(ValueError, match="Derived: left holds"):
        PairwiseSGD(Derived()).solve(PROBLEM, X, Y, n_steps=50, rng=0)


class PreviousTwice(PreviousExample):
    """A pairing of one's own that is derived from the default one."""

    def online(self, rng):
        return _OwnArrivals(lambda m: Arrival(Plan(np.array([1]), np.array([0])), np.array([0])))


def test_a_stream_asks_a_derived_pairing():
    assert PairwiseSGD(PreviousTwice()).start(PROBLEM, 3).learn_many(X, Y).n_steps == 1


@pytest.mark.parametrize("wrong", [np.array([0.0]), np.array([N]), np.array([-1])])
def test_listed_pairs_are_looked_at(wrong):
    with pytest.raises(ValueError, match="ListedPairs: left"):
        PairwiseSGD(ListedPairs(wrong, np.array([0]))).solve(PROBLEM, X, Y, n_steps=3, rng=0)
