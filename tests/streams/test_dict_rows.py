"""Machine code reads dicts as the interpreter does, or leaves them to it."""

import copy
import gc
import math
import pickle
import random
import sys
import threading
import warnings
from collections import OrderedDict, UserDict, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.streams import NamedLearner, dict_rows, named_parts, waiting
from pairlearn.streams.dict_rows import DictRows, DictScores, can_read_dicts
from pairlearn.streams.examples import LABELS, LARGEST, as_numbers

pytestmark = pytest.mark.skipif(not can_read_dicts(), reason="this Python has other objects")
NAMES = ("a", "b", 3)
PLAIN = st.one_of(
    st.floats(-1e60, 1e60), st.integers(-(2**63), 2**63 - 1), st.booleans(),
    st.floats(-1e60, 1e60).map(np.float64),
)  # fmt: skip


class Number(float):
    """A float of a user's own."""


class Text(str):
    """A text of a user's own."""

    __slots__ = ()


class Named(dict):
    """A dict of a user's own."""


def rows_for(names=NAMES, size=8, others=None):
    rows = DictRows(names, others=[] if others is None else others, size=size)
    rows.open(size)
    return rows


def usual():
    return {"a": 1.0, "b": 2.0, 3: 1.0}


#: Each is unlike `usual` in something.
UNUSUAL = [
    {},
    {"a": 1.0, "b": 2.0},
    {"a": 1.0, "b": 2.0, 3: 1.0, "c": 1.0},
    {"b": 2.0, "a": 1.0, 3: 1.0},
    {"a": 1.0, "b": 2.0, "3": 1.0},
    {"a": 1.0, "b": 2.0, 3.0: 1.0},
    {Text("a"): 1.0, "b": 2.0, 3: 1.0},
    Named(usual()),
    OrderedDict(usual()),
    defaultdict(float, usual()),
    UserDict(usual()),
    list(usual().items()),
    None,
    1.5,
    *(
        {"a": value, "b": 2.0, 3: 1.0}
        for value in (
            math.nan, math.inf, -math.inf, 1.1e60, 2**63, -(2**63) - 1, 10**400, None, "1", 1j,
            Fraction(1, 2), Number(1.0), np.float32(1.0), np.int64(1), np.bool_(True),
            np.array(1.0), [1.0],
        )
    ),
]  # fmt: skip


@given(st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1, max_size=9))
def test_plain_numbers_become_what_float_makes_of_them(examples):
    rows = rows_for(size=len(examples) + 1)
    for k, values in enumerate(examples):
        assert rows.put(dict(zip(NAMES, values, strict=True)), k % 2 == 0) is True
    flat, y = rows.take()
    assert flat.tobytes() == np.array([float(v) for row in examples for v in row]).tobytes()
    assert y.tolist() == [1.0 - 2 * (k % 2) for k in range(len(examples))]


@pytest.mark.parametrize("example", UNUSUAL, ids=repr)
def test_what_is_unusual_is_left_to_the_interpreter(example):
    rows = rows_for()
    for place in range(3):
        assert rows.put(example, True) is None
        assert len(rows) == place
        assert rows.put(usual(), True) is True
    assert rows.take()[0].tolist() == [list(usual().values())] * 3


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c", 3]),
        st.one_of(PLAIN, st.floats(), st.integers(), st.none(), st.text(max_size=1)),
        max_size=4,
    )
)
def test_what_is_taken_is_what_the_interpreter_would_take(example):
    rows = rows_for()
    values = as_numbers(list(example.values()))
    small = all(
        not isinstance(value, int) or -(2**63) <= value < 2**63 for value in example.values()
    )
    expected = tuple(example) == NAMES and values is not None and small
    assert rows.put(example, False) is (True if expected else None)
    if expected:
        assert rows.take()[0].tobytes() == values.tobytes()


def test_the_limit_of_values_is_that_of_the_interpreter():
    for value in (LARGEST, -LARGEST, math.nextafter(LARGEST, math.inf), -math.inf):
        taken = rows_for(("a",)).put({"a": value}, True)
        assert taken is (True if as_numbers([value]) is not None else None)


@pytest.mark.parametrize(
    "label",
    [
        True, False, 1.0, -1.0, 0.0, -0.0, 1, 0, -1, 2, 0.5, math.nan, None, "True", [1], 10**400,
        np.True_, np.float64(1.0), np.int64(-1), Number(1.0), Fraction(1), 1 + 0j,
    ],
    ids=repr,
)  # fmt: skip
def test_labels_are_those_of_the_table_or_left_to_it(label):
    rows = rows_for()
    if rows.put(usual(), label):
        assert rows.take()[1].tolist() == [LABELS[label]]
    else:
        assert not isinstance(label, bool)
    # And the learner knows what the table knows.
    learner = NamedLearner()
    learner.learn_one(usual(), True)
    try:
        sign = LABELS[label]
    except (KeyError, TypeError):
        with pytest.raises(ValueError, match="the label must be"):
            learner.learn_one(usual(), label)
        assert learner.n_seen == 1
    else:
        learner.learn_one(usual(), label)
        assert learner.state()["labels"] == [sign]


def test_rows_end_with_their_room_and_while_others_wait():
    others = []
    rows = rows_for(size=4, others=others)
    rows.open(2)
    assert [rows.put(usual(), True) for _ in range(4)] == [True, False, None, None]
    assert len(rows) == len(rows.take()[1]) == 2
    assert len(rows) == 0
    assert rows.put(usual(), True) is None  # closed
    rows.open(4)
    others.append("one")
    assert rows.put(usual(), True) is None
    others.clear()
    assert rows.put(usual(), True) is True
    assert rows.look()[1].tolist() == rows.take()[1].tolist() == [1.0]
    for arguments in ((), (usual(),), (usual(), True, True)):
        rows.open(4)
        assert rows.put(*arguments) is None


def test_rows_keep_what_an_example_was():
    rows, example = rows_for(), usual()
    rows.put(example, True)
    example["a"] = 7.0
    del example["b"]
    assert rows.take()[0].tolist() == [[1.0, 2.0, 1.0]]


def test_equal_names_need_not_be_the_same_objects():
    names = tuple("".join(part) for part in (["na", "me"], ["größe"], ["", "x" * 99]))
    other = ["".join(list(name)) for name in names]
    assert all(one is not two for one, two in zip(names, other, strict=True))
    example = dict(zip(other, (1.0, 2.0, 3.0), strict=True))
    rows = rows_for(names)
    rows.put(example, True)
    assert rows.take()[0].tolist() == [[1.0, 2.0, 3.0]]
    assert DictScores(names).score_of(example, np.array([0.0, 0.0, 0.0, 1.0, 10.0, 100.0])) == 321.0
    assert rows_for(("one",)).put({"two": 1.0}, True) is None


def test_no_reference_is_kept_or_lost():
    names, values = tuple(f"name {k}" for k in range(3)), (0.25, 12345678901, np.float64(2.5))
    example = dict(zip(names, values, strict=True))
    rows, scores, numbers = rows_for(names), DictScores(names), np.ones(6)
    odd = {**example, "name 1": "text"}
    answers = True, False, None
    kept = [*names, *values, example, odd, numbers, *answers]
    gc.collect()
    before = [sys.getrefcount(one) for one in kept]
    for _ in range(1000):
        rows.open(2)
        found = [rows.put(example, True), rows.put(odd, False), rows.put(example, False)]
        assert found == [True, None, False]
        rows.take()
        for of in (scores.score_of, scores.chance_of):
            assert of(example, numbers) is not None
            assert of(odd, numbers) is None
    del found
    gc.collect()
    after = [sys.getrefcount(one) for one in kept]
    # Those of True, False and None belong to the whole process.
    assert after[:-3] == before[:-3]
    assert np.abs(np.subtract(after[-3:], before[-3:])).max() < 500


def test_a_function_keeps_alive_what_it_uses():
    names = tuple("".join(["na", "me", str(k)]) for k in range(3))
    example = {"".join(["na", "me", str(k)]): float(k) for k in range(3)}
    put, of = rows_for(names, size=1 << 16).put, DictScores(names).score_of
    del names
    gc.collect()
    [bytearray(b"x" * 64) for _ in range(1000)]
    assert all(put(example, True) for _ in range(1000))
    assert of(example, np.arange(6.0)) == 1 * 4 + 2 * 5


@pytest.mark.parametrize(
    "twin_of", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_reads_alike(twin_of):
    scores = DictScores(tuple("".join(["na", "me", str(k)]) for k in range(3)))
    twin = twin_of(scores)
    del scores
    gc.collect()
    example = {"name0": 1.0, "name1": 2, "name2": -1.0}
    assert twin.score_of(example, np.array([0.0, 0.0, 0.0, 1.0, 1.0, 5.0])) == -2.0


@pytest.fixture
def mixed_examples():
    rng = np.random.default_rng(5)
    examples = [dict(zip("abc", row, strict=True)) for row in rng.normal(size=(1500, 3)).tolist()]
    for k in range(0, 1500, 7):
        examples[k]["b"] = k % 3
    examples[600] = dict(reversed(examples[600].items()))
    examples[800]["c"] = "none"
    for k in range(1000, 1100):
        examples[k]["new"] = 0.5
    del examples[1300]["a"]
    examples[1400] = OrderedDict(examples[1400])
    examples[1450]["a"] = 2**63
    return examples, (rng.random(1500) < 0.4).tolist()


def in_both_ways(monkeypatch, work):
    """Return what some work finds with machine code, and by the interpreter alone."""
    found = []
    for there in (True, False):
        with monkeypatch.context() as patched:
            for module in (waiting, named_parts):
                patched.setattr(module, "can_read_dicts", lambda there=there: there)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found.append((work(there), [str(one.message) for one in told]))
    return found


def state_of(learner):
    """Return a state as bytes; numbers that wait may have become floats."""
    state = learner.state()
    state["waiting"] = [
        {name: value if value is None or isinstance(value, str) else float(value)
         for name, value in x.items()}
        for x in state["waiting"]
    ]  # fmt: skip
    return pickle.dumps(state)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"memory": 200.0},
        {"step_size": 0.1},
        {"loss": "hinge"},
        {"loss": "hinge", "scaling": None},
    ],
    ids=str,
)
def test_a_learner_has_the_same_bits_without_it(options, mixed_examples, monkeypatch):
    def work(there):
        learner, states = NamedLearner(**options), []
        for k, (x, label) in enumerate(zip(*mixed_examples, strict=True)):
            learner.learn_one(x, label)
            assert learner.n_seen == k + 1
            if k % 411 == 0:
                states.append(state_of(learner))
            if k in (500, 990):
                learner = pickle.loads(pickle.dumps(learner))
        assert (learner._waiting.expected is not None) == there
        return [*states, state_of(learner), learner.coefficients, learner.n_refused]

    ours, theirs = in_both_ways(monkeypatch, work)
    assert ours == theirs
    assert any("'c' is 'none'" in one for one in ours[1])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_any_stream_of_odd_examples_is_learned_alike(seed):
    """Steps at random: usual and unusual examples, changes after the call, looks, copies."""
    chance = random.Random(seed)
    steps = []
    for _ in range(chance.randrange(20, 400)):
        kind = chance.random()
        values = [chance.gauss(0.0, 1.0) for _ in range(3)]
        x = dict(zip(NAMES, values, strict=True))
        if kind < 0.04:
            x = chance.choice([one for one in UNUSUAL if isinstance(one, dict)])
        elif kind < 0.1:
            x[chance.choice(NAMES)] = chance.choice([1, True, 2**62, np.float64(0.5), -3])
        elif kind < 0.14:
            x = dict(chance.sample(list(x.items()), 3))
        look = chance.choice(["state", "copy", "pickle", "coefficients", "chance"])
        steps.append((x, chance.random() < 0.5, look if chance.random() < 0.05 else ""))

    def work(there):
        learner, found, last = NamedLearner(), [], {}
        for x, label, look in steps:
            own = x.copy()
            learner.learn_one(own, label)
            last.clear()  # Whoever changes a dict after the call changes nothing.
            last = own if type(own) is dict else {}
            if look == "state":
                state = learner.state()
                learner = NamedLearner()
                learner.restore(state)
            elif look == "copy":
                learner = copy.deepcopy(learner)
            elif look == "pickle":
                learner = pickle.loads(pickle.dumps(learner))
            elif look == "coefficients":
                found.append(learner.coefficients)
            elif look == "chance":
                found.append(learner.score_one({"a": 1.0, "b": 0.5, 3: 2.0}))
        found.append(learner.n_refused)
        return [*found[:-1], found[-1], list(learner.coefficients.items())]

    with pytest.MonkeyPatch.context() as monkeypatch:
        ours, theirs = in_both_ways(monkeypatch, work)
    assert ours[1] == theirs[1]
    assert repr([one for one in ours[0] if not isinstance(one, float)]) == repr(
        [one for one in theirs[0] if not isinstance(one, float)]
    )
    scores = [[one for one in own[0] if isinstance(one, float)] for own in (ours, theirs)]
    np.testing.assert_allclose(*scores, rtol=1e-12)


def test_changing_a_dict_while_it_waits_changes_nothing(mixed_examples):
    examples, labels = mixed_examples
    kept, changed = NamedLearner(), NamedLearner()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x, label in zip(examples, labels, strict=True):
            kept.learn_one(x, label)
            own = copy.copy(x)
            changed.learn_one(own, label)
            own.clear()
        assert pickle.dumps(kept.state()) == pickle.dumps(changed.state())


def test_an_example_that_is_refused_leaves_the_learner_as_it_was():
    learner = NamedLearner()
    for _ in range(3):
        learner.learn_one({"a": 1.0}, True)
        learner.learn_one({"a": -1.0}, False)
    before = pickle.dumps(learner.state())
    for x, y in ((3.0, True), (None, True), ({"a": 1.0}, "yes"), ({"a": 1.0}, [1]), ([1], True)):
        with pytest.raises(ValueError, match="must be"):
            learner.learn_one(x, y)
    with pytest.raises(TypeError):
        learner.learn_one({"a": 1.0})
    assert pickle.dumps(learner.state()) == before


def test_threads_that_add_usual_and_unusual_examples_lose_none():
    """Each thread's own feature counts its examples: all of them are learned, once."""
    learner, each, failures = NamedLearner(), 3000, []
    names = [f"n{k}" for k in range(4)]

    def teach(k):
        try:
            for i in range(each):
                x = {name: float(name == names[k]) for name in names}
                if i % 37 == 0:
                    x = dict(reversed(x.items()))
                learner.learn_one(x, i % 2 == 0)
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=teach, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
    assert learner.n_seen == 4 * each
    assert learner.coefficients.keys() == set(names)
    moments = learner._way._blocks.whole()
    shares = (moments.counts[:, np.newaxis] * moments.means).sum(axis=0)
    np.testing.assert_allclose(shares, each, rtol=1e-9)


def test_other_pythons_use_the_interpreter(monkeypatch):
    for name, value in (
        ("platform.python_implementation", lambda: "PyPy"),
        ("sysconfig.get_config_var", lambda name: 1),
        ("ctypes.sizeof", lambda kind: 4),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(f"pairlearn.streams.dict_rows.{name}", value)
            assert not can_read_dicts.__wrapped__()
    assert can_read_dicts.__wrapped__()
    assert dict_rows.can_read_dicts()


FLOATS = st.floats(-1e60, 1e60)


@given(st.lists(st.tuples(FLOATS, PLAIN), min_size=1, max_size=20))
def test_a_score_is_the_sum_of_products_in_order(pairs):
    names = tuple(f"x{k}" for k in range(len(pairs)))
    numbers = np.array([0.0, 0.0, 0.0, *(coef for coef, _ in pairs)])
    scores, total = DictScores(names), 0.0
    for coef, value in pairs:
        total += coef * float(value)
    example = {name: value for name, (_, value) in zip(names, pairs, strict=True)}
    assert scores.score_of(example, numbers) == total
    assert scores.score_of(example, np.zeros(len(numbers))) == 0.0


@given(st.tuples(*[st.floats(-1e3, 1e3)] * 5), FLOATS)
def test_a_chance_is_that_of_the_interpreter(numbers, value):
    slope, intercept, offset, coef, _ = numbers
    odds = slope * (coef * value - offset) + intercept
    expected = 1.0 / (1.0 + math.exp(-min(max(odds, -700.0), 700.0)))
    found = DictScores(("a",)).chance_of({"a": value}, np.array([slope, intercept, offset, coef]))
    assert found == pytest.approx(expected, rel=1e-15)
    assert 0.0 <= found <= 1.0


@pytest.mark.parametrize("example", UNUSUAL, ids=repr)
def test_an_unusual_example_has_no_score(example):
    # Only learning has a limit for values.
    too_large = type(example) is dict and any(
        type(value) is float and abs(value) > LARGEST for value in example.values()
    )
    scores = DictScores(NAMES)
    for of in (scores.score_of, scores.chance_of):
        found = of(example, np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
        assert (found is not None) == too_large


def test_predictions_do_not_depend_on_machine_code(mixed_examples, monkeypatch):
    def work(there):
        learner, own = NamedLearner(), []
        for x, label in zip(*mixed_examples, strict=True):
            if x["c"] != "none":
                own.append(learner.predict_proba_one(x)[True])
                own.append(learner.score_one(x))
            learner.learn_one(x, label)
        assert (learner._seen._quick is not None) == there
        own.append(copy.deepcopy(learner).predict_proba_one({"a": 1.0, "b": 0.5, "c": 2.0})[True])
        for odd in (math.nan, math.inf, -math.inf, 1e300, 2**70):
            own.append(learner.predict_proba_one({"a": odd, "b": 1.0, "c": 0.0, "new": 1.0})[True])
        return own

    (ours, _), (theirs, _) = in_both_ways(monkeypatch, work)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_order_and_kind_of_numbers_change_no_bit_of_a_score():
    rng = np.random.default_rng(3)
    rows = rng.integers(-9, 10, (300, 13)).astype(float)
    learner = NamedLearner()
    examples = [{f"x{k}": value for k, value in enumerate(row)} for row in rows.tolist()]
    for x, label in zip(examples, rows[:, 0] + rng.normal(0.0, 9.0, 300) > 0.0, strict=True):
        learner.learn_one(x, bool(label))
    coef = learner._seen.coef
    for x in examples:
        # From Python 3.12 on `sum` is more exact than a loop.
        total = 0.0
        for own, value in zip(coef, x.values(), strict=True):
            total += own * value
        total -= learner._seen.offset
        whole = {name: int(value) for name, value in x.items()}
        other = dict(reversed(x.items()))
        assert total == learner.score_one(x) == learner.score_one(whole) == learner.score_one(other)
        assert learner.score_one({**whole, "new": 1}) == total
