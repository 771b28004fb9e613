"""Machine code reads dicts as the interpreter does, or leaves them to it."""

import copy
import gc
import math
import pickle
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.streams import NamedLearner, named, named_parts
from pairlearn.streams.dict_rows import DictRows, DictScore, can_read_dicts

pytestmark = pytest.mark.skipif(not can_read_dicts(), reason="this Python has other objects")
NAMES = ("a", "b", 3)
PLAIN = st.one_of(
    st.floats(-1e60, 1e60), st.integers(-(2**63), 2**63 - 1), st.booleans(),
    st.floats(-1e60, 1e60).map(np.float64),
)  # fmt: skip


class Number(float):
    """A float of a user's own."""


@given(st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1, max_size=9))
def test_plain_numbers_become_what_float_makes_of_them(rows):
    pairs = [(dict(zip(NAMES, row, strict=True)), 1.0 - 2 * (k % 2)) for k, row in enumerate(rows)]
    flat, y = DictRows(NAMES).read(pairs)
    assert flat.tobytes() == np.array([float(value) for row in rows for value in row]).tobytes()
    assert y.tolist() == [label for _, label in pairs]


@pytest.mark.parametrize(
    "example",
    [
        {"a": 1.0, "b": 2.0},
        {"a": 1.0, "b": 2.0, 3: 1.0, "c": 1.0},
        {"b": 2.0, "a": 1.0, 3: 1.0},
        {"a": 1.0, "b": 2.0, "3": 1.0},
        {"a": 1.0, "b": 2.0, 3.0: 1.0},
        *(
            {"a": value, "b": 2.0, 3: 1.0}
            for value in (
                math.nan, math.inf, 1.1e60, 2**63, -(2**63) - 1, 10**400, None, "1", 1j,
                Fraction(1, 2), Number(1.0), np.float32(1.0), np.int64(1), np.array(1.0), [1.0],
            )
        ),
    ],
)  # fmt: skip
def test_what_is_unusual_is_left_to_the_interpreter(example):
    usual = {"a": 1.0, "b": 2.0, 3: 1.0}, 1.0
    for place in range(3):
        pairs = [usual] * 2
        pairs.insert(place, (example, 1.0))
        assert DictRows(NAMES).read(pairs) is None
    assert DictRows(NAMES).read([usual, (usual[0], 1)]) is None


def test_equal_names_need_not_be_the_same_objects():
    names = tuple("".join(part) for part in (["na", "me"], ["größe"], ["", "x" * 99]))
    other = ["".join(list(name)) for name in names]
    assert all(one is not two for one, two in zip(names, other, strict=True))
    read = DictRows(names).read([(dict(zip(other, (1.0, 2.0, 3.0), strict=True)), 1.0)])
    assert read[0].tolist() == [1.0, 2.0, 3.0]
    assert DictRows(("one",)).read([({"two": 1.0}, 1.0)]) is None


def test_no_reference_is_kept_or_lost():
    names, values = tuple(f"name {k}" for k in range(3)), (0.25, 12345678901, np.float64(2.5))
    example = dict(zip(names, values, strict=True))
    pairs, reader = [(example, 1.0)] * 5, DictRows(names)
    pairs_of_others = [*pairs, ({**example, "name 1": "text"}, 1.0)]
    kept = [*names, *values, example, pairs, reader, pairs_of_others]
    before = [sys.getrefcount(one) for one in kept]
    for _ in range(1000):
        reader.read(pairs)
        reader.read(pairs_of_others)
    gc.collect()
    assert [sys.getrefcount(one) for one in kept] == before


@pytest.mark.parametrize(
    "twin_of", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_reads_alike(twin_of):
    reader = DictRows(tuple("".join(["na", "me", str(k)]) for k in range(3)))
    twin = twin_of(reader)
    del reader
    gc.collect()
    example = {"name0": 1.0, "name1": 2, "name2": -1.0}
    assert twin.read([(example, -1.0)])[0].tolist() == [1.0, 2.0, -1.0]


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
    return examples, (rng.random(1500) < 0.4).tolist()


def test_a_learner_has_the_same_bits_without_it(mixed_examples, monkeypatch):
    states = []
    for there in (True, False):
        monkeypatch.setattr(named, "can_read_dicts", lambda there=there: there)
        learner = NamedLearner()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for x, label in zip(*mixed_examples, strict=True):
                learner.learn_one(x, label)
        assert (learner._reader is not None) == there
        states.append((pickle.dumps(learner.state()), [str(one.message) for one in told]))
    assert states[0] == states[1]
    assert "'c' is 'none'" in states[0][1][0]


def test_other_pythons_use_the_interpreter(monkeypatch):
    for name, value in (
        ("platform.python_implementation", lambda: "PyPy"),
        ("sysconfig.get_config_var", lambda name: 1),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(f"pairlearn.streams.dict_rows.{name}", value)
            assert not can_read_dicts.__wrapped__()
    assert can_read_dicts.__wrapped__()


FLOATS = st.floats(-1e60, 1e60)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=20), st.booleans())
def test_a_score_is_the_sum_of_products_in_order(pairs, numpy_s):
    names = tuple(f"x{k}" for k in range(len(pairs)))
    score = DictScore(names, np.array([coef for coef, _ in pairs]))
    total = 0.0
    for coef, value in pairs:
        total += coef * value
    kind = np.float64 if numpy_s else float
    example = {name: kind(value) for name, (_, value) in zip(names, pairs, strict=True)}
    assert score.of(example) == total
    assert score.with_coef(np.zeros(len(pairs))).of(example) == 0.0
    assert score.of(example) == total


@pytest.mark.parametrize(
    "example",
    [
        {},
        {"a": 1.0},
        {"b": 1.0, "a": 1.0},
        {"a": 1.0, "b": 1.0, "c": 1.0},
        {"a": 1.0, "c": 1.0},
        *({"a": value, "b": 1.0} for value in (1, True, "1", None, math.nan, Number(1.0))),
    ],
)
def test_an_unusual_example_has_no_score(example):
    assert math.isnan(DictScore(("a", "b"), np.ones(2)).of(example))


def test_scores_keep_and_lose_no_reference():
    names = tuple(f"name {k}" for k in range(3))
    score, example = DictScore(names, np.ones(3)), dict(zip(names, (0.5, 1.25, 3.5), strict=True))
    kept = [*names, *example.values(), example]
    before = [sys.getrefcount(one) for one in kept]
    for _ in range(1000):
        score.of(example)
    assert [sys.getrefcount(one) for one in kept] == before
    twin, other = pickle.loads(pickle.dumps((score, example)))
    assert twin.of(other) == score.of(example) == 5.25


def test_predictions_do_not_depend_on_machine_code(mixed_examples, monkeypatch):
    found = []
    for there in (True, False):
        monkeypatch.setattr(named_parts, "can_read_dicts", lambda there=there: there)
        learner, own = NamedLearner(), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for x, label in zip(*mixed_examples, strict=True):
                if x["c"] != "none":
                    own.append(learner.predict_proba_one(x)[True])
                learner.learn_one(x, label)
        assert (learner._seen.quick is not None) == there
        own.append(copy.deepcopy(learner).predict_proba_one({"a": 1.0, "b": 0.5, "c": 2.0})[True])
        found.append(own)
    np.testing.assert_allclose(*found, rtol=1e-12)


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
        whole = {name: int(value) for name, value in x.items()}
        other = dict(reversed(x.items()))
        assert total == learner.score_one(x) == learner.score_one(whole) == learner.score_one(other)
        assert learner.score_one({**whole, "new": 1}) == total
