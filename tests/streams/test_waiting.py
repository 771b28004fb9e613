"""Examples that wait keep their order, as rows or as dicts."""

import copy
import pickle

import pytest

from pairlearn.streams import waiting
from pairlearn.streams.waiting import Waiting

NAMES = ("a", "b")


@pytest.fixture(params=[True, False], ids=["rows", "dicts"])
def queue(request, monkeypatch):
    there = request.param and waiting.can_read_dicts()
    monkeypatch.setattr(waiting, "can_read_dicts", lambda: there)
    queue = Waiting(room=8)
    queue.expect(NAMES)
    return queue


def put(queue, k, names=NAMES):
    """Let example number k wait; return whether more may come."""
    values, sign = {"a": float(k), "b": -1.0}, 1.0 - 2 * (k % 2)
    x = {name: values[name] for name in names}
    more = queue.put(x, sign)
    return queue.add(x, sign) if more is None else more


def numbers(pairs):
    assert all(sign == 1.0 - 2 * (x["a"] % 2) and x["b"] == -1.0 for x, sign in pairs)
    return [int(x["a"]) for x, _ in pairs]


def everything(queue):
    """Take all examples, a batch after the other, as their numbers."""
    found = []
    while len(queue):
        rows = queue.take_rows()
        if rows is None:
            found += numbers(queue.take())
        else:
            assert (rows[0][:, 1] == -1.0).all()
            assert (rows[1] == 1.0 - 2 * (rows[0][:, 0] % 2)).all()
            found += rows[0][:, 0].astype(int).tolist()
        if queue.room <= 0:
            queue.set_room(8)
    return found


@pytest.mark.parametrize("odd", [(), (0,), (3,), (6, 7), (2, 5, 9, 10)])
def test_they_leave_in_the_order_of_arrival(queue, odd):
    more = [put(queue, k, NAMES[::-1] if k in odd else NAMES) for k in range(12)]
    assert more == [True] * 7 + [False] * 5
    assert len(queue) == 12
    assert numbers(queue.pairs()) == list(range(12))
    assert everything(queue) == list(range(12))
    assert len(queue) == 0
    assert queue.take_rows() is None


def test_a_batch_is_as_long_as_there_is_room(queue):
    for k in range(5):
        put(queue, k)
    rows = queue.take_rows()
    assert len(rows[1] if rows is not None else queue.take()) == 5
    assert queue.room == 3
    assert [put(queue, k) for k in range(3)] == [True, True, False]
    assert everything(queue) == [0, 1, 2]


def test_what_is_put_back_comes_first(queue):
    for k in range(8):
        put(queue, k, NAMES[::-1] if k == 4 else NAMES)
    taken = queue.take()
    put(queue, 8)
    queue.put_back(taken[5:])
    assert queue.room == 3
    put(queue, 9)
    assert [*numbers(taken[:5]), *everything(queue)] == list(range(10))


def test_room_and_names_change_while_they_wait(queue):
    for k in range(3):
        put(queue, k)
    queue.set_room(1000)
    for k in range(3, 6):
        assert put(queue, k)
    queue.expect(NAMES[::-1])
    for k in range(6, 9):
        put(queue, k, NAMES[::-1])
    queue.expect(None)
    put(queue, 9)
    assert queue.expected is None
    assert numbers(queue.pairs()) == list(range(10))
    assert numbers(queue.take()) == list(range(10))


def test_an_old_function_adds_nothing(queue):
    old = queue.put
    queue.expect(NAMES[::-1])
    assert old(dict.fromkeys(NAMES, 1.0), True) is None
    assert len(queue) == 0


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_has_the_same_examples(queue, twin_of):
    for k in range(6):
        put(queue, k, NAMES[::-1] if k == 4 else NAMES)
    twin = twin_of(queue)
    put(twin, 6)
    assert (twin.room, len(twin), len(queue)) == (8, 7, 6)
    assert everything(twin) == list(range(7))
    assert everything(queue) == list(range(6))
