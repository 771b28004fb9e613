# SPDX-License-Identifier: BSD-3-Clause
"""check_pairing: every pairing of the package passes, and slips are found."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from pairlearn import (
    Constant,
    FifoBuffer,
    Hinge,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    PreviousOfQuery,
    PreviousOpposite,
    Problem,
    RandomPair,
    ReservoirBuffer,
)
from pairlearn.pairings import (
    AllPrevious,
    Arrival,
    ClassReservoirs,
    FrozenExample,
    GivenPairs,
    ListedPairs,
    Pairing,
    Plan,
    RandomEarlier,
)
from pairlearn.testing import check_pairing

QUERIES = np.repeat([0, 1, 2, 3], 5)


@pytest.mark.parametrize(
    ("pairing", "options"),
    [
        (PreviousExample(), {}),
        (FrozenExample(), {}),
        (RandomEarlier(), {}),
        (PreviousOpposite(), {}),
        (RandomPair(), {}),
        (FifoBuffer(1), {}),
        (FifoBuffer(3), {}),
        (AllPrevious(), {}),
        (ReservoirBuffer(5), {}),
        (ClassReservoirs(3, 2), {}),
        (ClassReservoirs(3, 2, weighting="oam", zero_filled=True), {}),
        (GivenPairs(), {"smallest_chunk": 2}),
        (ListedPairs(np.array([0, 1]), np.array([2, 2])), {}),
        (PreviousOfQuery(QUERIES), {"qid": QUERIES}),
        (PreviousOfQuery(QUERIES, max_open=2), {"qid": QUERIES}),
    ],
    ids=repr,
)
def test_pairings_of_the_package(pairing, options):
    check_pairing(pairing, **options)


# ------------------------------------------------------------------------------- offline slips


def drawing(draw, *, start=None):
    """Return a pairing whose source draws by `draw(source, n_steps)`."""

    class Source:
        def __init__(self, n, rng, y):
            self.n, self.rng, self.y = n, rng, y
            if start is not None:
                start(self)

        def draw(self, n_steps):
            return draw(self, n_steps)

    @dataclass(frozen=True)
    class Mine(Pairing):
        def offline(self, n, rng, y=None):
            return Source(n, rng, y)

    return Mine()


def uniform(source, n_steps):
    left, right = source.rng.integers(0, source.n, (2, n_steps), dtype=np.int32)
    return Plan(left, right)


def forgetful_path(source, n_steps):
    path = source.rng.integers(0, source.n, n_steps + 1)
    return Plan(path[1:], path[:-1])


def same_again(source, n_steps):
    left, right = np.random.default_rng(source.first).integers(0, source.n, (2, n_steps))
    return Plan(left, right)


def global_randomness(source, n_steps):
    left, right = np.random.default_rng().integers(0, source.n, (2, n_steps))
    return Plan(left, right)


def note_first(source):
    source.first = int(source.rng.integers(1 << 30))


def test_a_sound_one():
    check_pairing(drawing(uniform))


@pytest.mark.parametrize(
    ("pairing", "message"),
    [
        (drawing(lambda s, k: uniform(s, k + 1)), "draws 2 steps instead of 1"),
        (drawing(lambda s, k: uniform(s, 0)), "draws 0 steps instead of 1"),
        (drawing(lambda s, k: [(0, 1)] * k), "return a Plan or a SlotPlan"),
        (drawing(lambda s, k: Plan(np.ones(k), np.zeros(k))), "left is float64 .* int32 or int64"),
        (drawing(lambda s, k: Plan([1] * k, [0] * k)), "left is list of shape"),
        (
            drawing(lambda s, k: Plan(np.full(k, s.n), np.zeros(k, int))),
            "left holds 20 at place 0; it must lie between 0 and 19",
        ),
        (drawing(lambda s, k: Plan(np.zeros(k, int), -np.ones(k, int))), "right holds -1"),
        (drawing(lambda s, k: Plan(np.zeros(k, int), np.zeros(k + 1, int))), "1 left and 2 right"),
        (drawing(lambda s, k: replace(uniform(s, k), distinct=True)), "leave out distinct=True"),
        (drawing(global_randomness), "only source of randomness"),
        (drawing(forgetful_path), "return of the example before at step"),
        (drawing(same_again, start=note_first), "changes its law when drawn in pieces"),
    ],
)
def test_offline_slips_are_found(pairing, message):
    with pytest.raises(ValueError, match=message):
        check_pairing(pairing)


def test_slips_of_a_buffer_are_found():
    def broken(**changes):
        def draw(source, n_steps):
            plan = source.inner.draw(n_steps)
            return replace(plan, **{name: change(plan) for name, change in changes.items()})

        def start(source):
            source.inner = FifoBuffer(3).offline(source.n, source.rng, source.y)

        pairing = drawing(draw, start=start)
        type(pairing).one_pair_a_step = False
        return pairing

    check_pairing(broken())
    for changes, message in (
        ({"start": lambda plan: plan.start + 20}, "start holds"),
        ({"stop": lambda plan: plan.stop + 3}, "stop holds"),
        ({"stop": lambda plan: plan.first - 1}, "stop holds -1"),
        ({"first": lambda plan: plan.stop + 1}, "ends before it begins|first holds"),
        ({"edit_slots": lambda plan: plan.edit_slots + 3}, "edit_slots holds"),
        ({"edit_rows": lambda plan: plan.edit_rows - 20}, "edit_rows holds"),
        ({"edit_offsets": lambda plan: plan.edit_offsets[::-1]}, "must grow from 0"),
        ({"scale": lambda plan: plan.scale * np.nan}, "scale must hold finite"),
        ({"scale": lambda plan: plan.scale[1:]}, "of the lengths"),
    ):
        with pytest.raises(ValueError, match=message):
            check_pairing(broken(**changes))
    pairing = broken()
    type(pairing).one_pair_a_step = True
    with pytest.raises(ValueError, match="set one_pair_a_step = False"):
        check_pairing(pairing)


# -------------------------------------------------------------------------------- online slips


def arriving(arrive):
    """Return a pairing that pairs a stream by `arrive(source, y)`."""

    class Source:
        def __init__(self, rng):
            self.rng, self.b, self.n_seen = rng, 0, 0

        def arrive(self, y):
            return arrive(self, y)

    @dataclass(frozen=True)
    class Mine(type(drawing(uniform))):
        def online(self, rng):
            return Source(rng)

    return Mine()


def previous(source, y):
    rows = np.arange(source.b + len(y))
    source.b = 1
    return Arrival(Plan(rows[1:], rows[:-1]), rows[-1:])


def keeps_the_wrong_one(source, y):
    arrival = previous(source, y)
    return Arrival(arrival.plan, np.array([0]))


def keeps_nothing(source, y):
    arrival = previous(source, y)
    return Arrival(arrival.plan, np.empty(0, dtype=np.int64))


def knows_the_future(source, y):
    rows = np.arange(source.b, source.b + len(y))
    source.b = 0
    return Arrival(Plan(rows, rows[::-1].copy()), np.empty(0, dtype=np.int64))


def labels_of_the_chunk(source, y):
    arrival = previous(source, y)
    if y.sum() < 0:
        return Arrival(Plan(arrival.plan.left, arrival.plan.left), arrival.keep)
    return arrival


def keeps_a_stranger(source, y):
    return Arrival(previous(source, y).plan, np.array([99]))


@pytest.mark.parametrize(
    ("arrive", "message"),
    [
        (keeps_the_wrong_one, r"step 2 of 60 examples is .* in one chunk and .* in smaller ones"),
        (keeps_nothing, "left holds 1 at place 0; it must lie between 0 and 0"),
        (knows_the_future, "let an example meet earlier ones only"),
        (labels_of_the_chunk, "pairs a stream by its chunks"),
        (keeps_a_stranger, "keep holds 99"),
    ],
)
def test_online_slips_are_found(arrive, message):
    check_pairing(arriving(previous))
    with pytest.raises(ValueError, match=message):
        check_pairing(arriving(arrive))


def test_a_stream_looks_at_the_rows_of_a_pairing_of_ones_own():
    """Rows are those that the stream remembers, followed by those of the chunk, and no others."""

    class Mine(FifoBuffer):
        pass

    class Beyond(FifoBuffer):
        def online(self, rng):
            source = super().online(rng)
            first = source.arrive

            def arrive(y):
                arrival = first(y)
                return replace(arrival, keep=arrival.keep + 1)

            source.arrive = arrive
            return source

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], 40)
    problem = Problem(LinearScore(), Hinge())

    def learned(pairing):
        stream = PairwiseSGD(pairing, Constant(0.1)).start(problem, 3, rng=0)
        for begin, stop in pairwise((0, 7, 9, 10, 25, 40)):
            stream.learn_many(X[begin:stop], y[begin:stop])
        return stream.average

    np.testing.assert_array_equal(learned(Mine(4)), learned(FifoBuffer(4)))
    with pytest.raises(ValueError, match="Beyond: keep holds 7"):
        learned(Beyond(4))


def test_what_is_not_a_pairing():
    with pytest.raises(TypeError, match="an instance, not a class"):
        check_pairing(PreviousExample)
    with pytest.raises(ValueError, match="need qid with every chunk"):
        check_pairing(PreviousOfQuery(QUERIES))
    check_pairing(PreviousOpposite(), y=[1.0, 2.0, 3.0])
    for wrong in ({"y": []}, {"y": [3.0]}, {"qid": [1, 2]}):
        with pytest.raises(ValueError, match=r"two examples|list of finite"):
            check_pairing(PreviousExample(), **wrong)
